"""Makes the situations, runs their processes, and compares with the record and with what the commands say.

Each situation is a function, NAME, of tests/situations/KIND.bash. It is made of the words of words.bash in an empty directory, by a worker
in a mount namespace of its own: /run is empty there, so /run/opengl-driver is the situation's, and the directory has the same path for every
worker. The line that KIND.recorded has of it is

    NAME<TAB>STATUS OBJECT… [| NAME -> OBJECT +NEW… ] [| NAME !! MESSAGE] [| message of the loader]

with the situation's own objects, in the order that the process has them.

tests/situations/open lists which commands are known to say something wrong: KIND/NAME COMMAND what, and KIND/NAME COMMAND's-remedy
what, below lines with # that say why they stay. It only gets shorter: a wrong answer that is not listed fails, and so does a line whose answer is no longer wrong."""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import judge
import remedies

HERE = os.path.dirname(os.path.abspath(__file__))
OPEN = HERE + "/open"
Open = collections.namedtuple("Open", "name path message new")  # path is None where it failed


class Skipped(Exception):
    pass


class Start:
    """How a situation's process is started: words, its own variables, the file that the commands are asked about."""

    def __init__(self, text, directory):
        words = text.split("\0")[:-1]
        self.asked, self.gpu, self.because, self.limit = words[:4]
        bar = words.index("--", 4)
        self.env = dict(word.split("=", 1) for word in words[4:bar])
        self.argv, self.directory = words[bar + 1:], directory


class Process:
    """What a process did: status, what it printed, its objects at its start and after each open."""

    def __init__(self, start, env, base):
        self.directory = self.working = start.directory
        try:
            done = subprocess.run(start.argv, cwd=start.directory, env={**base, **env}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.status, out, err = done.returncode, done.stdout, done.stderr
        except OSError as error:  # as a shell says it: a program that is there, and whose loader is not
            self.status, out, err = 127, b"", str(error).encode()
        self.program, self.states, self.opens, objects = None, [], [], []
        for line in out.decode(errors="replace").splitlines():
            word, _, rest = line.partition(" ")
            if word == "@program":
                self.program = rest
            elif word == "@directory":
                self.working = rest
            elif word == "@object":
                objects.append(self.absolute(rest))
            elif word in ("@opened", "@failed", "@closed"):
                name, _, rest = rest.partition("\t")
                if word == "@failed":
                    self.opens.append(Open(name.strip(), None, rest.strip(), []))
                elif word == "@opened":
                    self.opens.append(Open(name.strip(), self.absolute(rest.strip()), "", []))
            elif word == "@state":
                if self.states and self.opens and not self.opens[-1].new:
                    self.opens[-1].new.extend(o for o in objects if o not in self.states[-1])
                self.states.append(objects)
                objects = []
        self.message = "\n".join(line for line in err.decode(errors="replace").splitlines() if line.strip())

    def absolute(self, path):
        if "/" not in path and not os.path.isfile(os.path.join(self.working, path)):  # the vDSO; what an empty entry finds has none
            return path
        path = os.path.join(self.working, path)
        plain = os.path.normpath(path)  # which a link before ".." makes another file
        return plain if os.path.realpath(plain) == os.path.realpath(path) else path

    def own(self, path):
        """Is it a file of the situation?"""
        return path.startswith((self.directory + "/", "/run/", "/usr/local/"))

    def loaded(self):
        """Real paths of the situation's objects that the process had at any time, its program among them."""
        return {os.path.realpath(o) for s in self.states + [[self.program or ""]] for o in s if self.own(o)}

    def last(self):
        return {os.path.realpath(o) for o in (self.states[-1] if self.states else []) if self.own(o)}

    def short(self, text):
        text = text.replace(self.directory + "/", "").replace(self.directory, ".")
        return re.sub(r"0x[0-9a-f]+|pid \d+", "…", text).replace("\t", " ").replace("\n", " / ")

    def names(self, objects):
        return [self.short(o) for o in objects if self.own(o)]

    def line(self):
        parts = [" ".join([str(self.status)] + self.names(self.states[0] if self.states else []))]
        for opened in self.opens:
            name = self.short(opened.name)
            if opened.path is None:
                parts.append(f"{name} !! {self.short(opened.message)}")
            else:
                parts.append(" ".join([f"{name} ->"] + self.names([opened.path]) + ["+" + n for n in self.names(opened.new)]))
        if self.message:
            parts.append(self.short(self.message))
        return " | ".join(parts)


class Situation:
    def __init__(self, ident, options):
        self.ident, self.options = ident, options
        self.directory = f"{options.work}/place/{os.path.basename(ident)}"  # without the kind: "stub" would make it a stub directory
        self.base = {"PATH": f"{options.bin}:{os.environ['PATH']}", "LC_ALL": "C", "HOME": "/nonexistent"}

    def make(self):
        for mount in reversed(mounts()[self.options.mounts:]):  # what the situation before has mounted
            subprocess.run(["umount", "--lazy", mount], check=True)
        for made in [self.directory, *glob.glob("/run/*")]:
            os.unlink(made) if os.path.islink(made) or os.path.isfile(made) else shutil.rmtree(made, ignore_errors=True)
        os.makedirs(self.directory)
        told = f"{self.options.work}/place/start"
        if os.path.exists(told):
            os.unlink(told)
        done = subprocess.run(["bash", "-c", '. "$1/words.bash"; . "$1/$2.bash"; "$3"', "-", HERE, *self.ident.split("/")], cwd=self.directory,
                              env={**self.base, "OBJECTS": self.options.work + "/objects", "START": told, "SITUATIONS": HERE},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=120)
        if done.returncode == 77:
            raise Skipped((done.stderr.strip().splitlines() or ["no reason"])[-1])
        if done.returncode or not os.path.exists(told):
            raise RuntimeError(f"the script ended with {done.returncode}: {done.stderr.strip()[-600:]}")
        with open(told, errors="surrogateescape") as file:
            return Start(file.read(), self.directory)

    def work(self):
        """A line of JSON for the parent: what happened, and what is wrong with what the commands said."""
        try:
            start = self.make()
            process = Process(start, start.env, self.base)
            told = {"line": process.line()}
            if not self.options.record:
                bare = Process(start, {}, self.base) if start.env else process
                claims = judge.ask(start, self.base)
                told["wrong"], told["unseen"] = judge.judge(start, process, bare, claims, self.base)
                if self.options.show:
                    told["show"] = "\n".join([f"{start.env or ''} {start.argv}: {process.line()}"] +
                                             [process.short(str(c)).replace(" /   ", "\n  ") for c in claims])
                if not self.options.quick:
                    told["wrong"].update(remedies.follow(start, process, claims, self.base, Process, self.options.work + "/place/kept"))
            return told
        except Skipped as why:
            return {"skipped": str(why)}
        except Exception as error:  # of one situation
            return {"failed": f"{type(error).__name__}: {error}"}


def mounts():
    """Mount points, in the order in which they were mounted."""
    with open("/proc/self/mountinfo") as file:
        return [line.split()[4] for line in file]


def worker(options):
    for place in ("/run", options.work + "/place"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", place], check=True)
    options.mounts = len(mounts())
    for ident in options.what:
        print(json.dumps({"ident": ident, **Situation(ident, options).work()}), flush=True)


def situations(kind):
    """The names of a kind's situations: its functions, which begin a line."""
    try:
        with open(f"{HERE}/{kind}.bash") as file:
            found = re.findall(r"^([a-z0-9-]+)\(\) \{$", file.read(), re.MULTILINE)
        with open(f"{HERE}/words.bash") as file:
            words = re.findall(r"^([a-z0-9_]+)\(\) *\{", file.read(), re.MULTILINE)
    except FileNotFoundError:
        return []
    for name in set(found) & set(words):
        sys.exit(f"{kind}.bash: {name} is a word of words.bash, which the situation would call itself by")
    return found


def selected(what):
    kinds = (os.path.basename(path)[:-len(".recorded")] for path in glob.glob(HERE + "/*.recorded"))
    found = sorted(f"{kind}/{name}" for kind in kinds for name in situations(kind))
    chosen = [i for i in found if not what or any(i == w or i.startswith(w.rstrip("/") + "/") for w in what)]
    for name in what:
        if not any(i == name or i.startswith(name.rstrip("/") + "/") for i in found):
            sys.exit(f"no situation is called {name}")
    return chosen


def records(kind):
    try:
        with open(f"{HERE}/{kind}.recorded") as file:
            return dict(line.rstrip("\n").split("\t", 1) for line in file)
    except FileNotFoundError:
        return {}


def read_open():
    try:
        with open(OPEN) as file:
            return {tuple(line.split(" ", 2)[:2]): line.rstrip("\n") for line in file if not line.startswith("#")}
    except FileNotFoundError:
        return {}


def run(options):
    idents = selected(options.what)
    if options.quick and not options.what:  # of each kind some, the same ones each time
        idents = idents[::6]
    jobs = min(4, os.cpu_count() or 1, len(idents) or 1)
    passing = [f"--{f}" for f in ("record", "quick", "show") if getattr(options, f)]
    workers = []
    for n in range(jobs):
        with open(f"{options.work}/told.{n}", "w") as answers:
            command = options.namespace.split() + [sys.executable, os.path.abspath(__file__), "--worker", "--work", options.work, "--bin", options.bin]
            workers.append(subprocess.Popen(command + passing + idents[n::jobs], stdout=answers))
    told = {}
    for n, process in enumerate(workers):
        process.wait()
        with open(f"{options.work}/told.{n}") as answers:
            told.update((answer.pop("ident"), answer) for answer in map(json.loads, answers))
    for ident in idents:
        told.setdefault(ident, {"failed": "the worker did not answer"})
    return told


def record(told):
    """Write the records; a situation that this machine cannot make keeps the line that it has."""
    for kind in sorted({ident.split("/")[0] for ident in told}):
        lines = {n: l for n, l in records(kind).items() if n in situations(kind)}
        lines.update((ident.split("/")[1], t["line"]) for ident, t in told.items() if ident.startswith(kind + "/") and "line" in t)
        with open(f"{HERE}/{kind}.recorded", "w") as file:
            file.writelines(f"{name}\t{line}\n" for name, line in sorted(lines.items()))


def main():
    parser = argparse.ArgumentParser()
    for flag in ("record", "open", "quick", "show", "worker"):
        parser.add_argument("--" + flag, action="store_true")
    for value in ("work", "bin", "namespace"):
        parser.add_argument("--" + value)
    parser.add_argument("what", nargs="*")
    options = parser.parse_args()
    if options.worker:
        return worker(options)
    told = run(options)
    if options.record:
        record(told)
    lines, known = {}, read_open()
    passed = failed = skipped = 0
    unseen = collections.Counter()
    for ident, answer in sorted(told.items()):
        kind, name = ident.split("/")
        bad = []
        if "show" in answer:
            print(answer["show"])
        if "skipped" in answer:
            print(f"skipped {ident}: {answer['skipped']}")
            skipped += 1
            lines.update((key, line) for key, line in known.items() if key[0] == ident)
            continue
        if "failed" in answer:
            bad.append(answer["failed"])
        elif answer["line"] != records(kind).get(name):
            bad.append(f"the process did something else:\n  record:  {records(kind).get(name)}\n  reality: {answer['line']}")
        for command, what in answer.get("wrong", {}).items():
            lines[ident, command] = f"{ident} {command} {what}"
            if (ident, command) not in known and not options.open:
                bad.append(f"not in tests/situations/open: {lines[ident, command]}")
        if "wrong" in answer:
            for key, line in known.items():
                if key[0] != ident or key in lines:
                    continue
                if key[1].endswith("'s-remedy") and options.quick:  # not tried
                    lines[key] = line
                elif not options.open:
                    bad.append(f"no longer so, take it out of tests/situations/open: {line}")
        unseen.update(answer.get("unseen", []))
        for line in bad:
            print(f"FAILED  {ident}: {line}")
        failed, passed = failed + bool(bad), passed + (not bad)
    gone = [line for key, line in known.items() if key[0].split("/")[1] not in situations(key[0].split("/")[0])]
    for line in gone:
        print(f"FAILED  there is no such situation: {line}")
    if options.open:
        lines.update((key, line) for key, line in known.items() if key[0] not in told and line not in gone)
        with open(OPEN) as file:
            why = [line for line in file if line.startswith("#")]
        with open(OPEN, "w") as file:
            file.writelines(why)
            file.writelines(line + "\n" for _, line in sorted(lines.items()))
    if not options.record:
        lines = {key: line for key, line in lines.items() if key[0] in told}
        wrong = {key[0] for key in lines}
        print(f"of {len(told)} situations, at least one command is wrong on {len(wrong)}: "
              + (", ".join(f"{c} {n}" for c, n in sorted(collections.Counter(key[1] for key in lines).items())) or "none"))
        if unseen:
            print("not counted, for the command's page says that it does not look: "
                  + ", ".join(f"{c} {n}" for c, n in sorted(unseen.items())))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main()
