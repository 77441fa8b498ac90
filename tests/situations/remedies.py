"""Follows each remedy that a command prints for a situation, on a copy: the process, run again, must not do less, the finding must
be gone, and no other error may have come (a process that failed and ends well then may open less). A program that ran a stub and then lacks the driver has not lost anything where the
host has none: that is the host's to bring."""
import os
import re
import shlex
import shutil
import subprocess

import judge

# What edits files of the situation; a remedy that changes the host (hostDriver install) is not followed here.
EDITORS = {"runpath", "stubReplace", "autoAddDriverRunpath", "addCudaCompatRunpath", "autoPatchelf", "chmod"}


def does(process):
    """What the process does, to be compared: whether it ends well, whether it starts, how many of its opens succeed."""
    return process.status == 0, bool(process.states), sum(opened.path is not None for opened in process.opens)


def about(text):
    """A finding without what an edit changes in its words: its kind, and the names in it."""
    more = [words for words in (": a stub,", " is a stub directory") if words in text]  # doctor says of both that it is the program
    return " ".join([text.split(":")[0], *more]), frozenset(re.findall(r"[\w+.-]+\.so[\w.]*", text))


def copy(source, target):
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", source, target], check=True)  # hard links, owners and modes too


def follow(start, process, claims, base, run, kept):
    wrong, tried = {}, set()
    before = {claim.command: {about(text) for text in claim.errors} for claim in claims}
    for claim in claims:
        for text, file, remedy in claim.told:
            if not remedy or remedy[0] not in EDITORS or tuple(remedy) in tried:
                continue
            tried.add(tuple(remedy))
            edited = os.path.realpath(os.path.join(start.directory, remedy[-1]))  # the machine's own are not to be touched
            if not edited.startswith((os.path.realpath(start.directory) + "/", "/run/", "/usr/local/")):
                wrong.setdefault(f"{claim.command}'s-remedy", []).append(f"edits {edited}, which is not of the situation")
                continue
            copy(start.directory, kept)
            done = subprocess.run(remedy, cwd=start.directory, env={**base, **start.env}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            said = []
            if done.returncode:
                said.append(f"ends with {done.returncode}: {done.stderr.strip()[:100]}")
            after = run(start, start.env, base)
            hostless = judge.tokens(after.message) == {"libcuda.so.1"} and not os.path.exists("/run/opengl-driver/lib/libcuda.so.1")
            mended = after.status == 0 and process.status  # a name that led to what did not work may then lead nowhere
            if not hostless and not mended and any(now < then for now, then in zip(does(after), does(process))):
                said.append(f"the process did {process.line()[:60]}, and then {after.line()[:60]}")
            answers = judge.ask(start, base)
            for answer in answers:
                came = {about(t) for t in answer.errors} - before[answer.command]
                if came and not after.status:  # where it still does not work, the next thing that is wrong may come to light
                    said.append(f"{answer.command} has a new error: {' '.join(sorted(k + ' ' + ' '.join(n) for k, n in came))[:80]}")
                if answer.command == claim.command and any(about(t) == about(text) and f == file for t, f, _ in answer.told):
                    said.append("the finding is still there")
            if said:
                shown = after.short(shlex.join(remedy))
                wrong.setdefault(f"{claim.command}'s-remedy", []).append(f"{shown}: {'; '.join(after.short(s) for s in said)}")
            copy(kept, start.directory)
    return {command: " + ".join(said)[:400] for command, said in wrong.items()}
