#!/usr/bin/python3
"""Compares packages that were built twice: compare.py FILE, whose lines are NAME STDENV-OUTPUTS HOOK-OUTPUTS, outputs with
commas between them, "-" where the build failed. Prints what differs, a table, and the closing line of a suite."""
import itertools
import os
import re
import stat
import sys

from elftools.elf.elffile import ELFFile

HASH = re.compile(rb"/([0-9a-z]{32})-")
# A directory that a build works in has the number of the build.
BUILD = re.compile(rb"(/nix-build-[A-Za-z0-9.+-]*\.drv-)\d")
# What an edit of the run path moves or rewrites. All else of a file must be the same, byte for byte.
MOVED = {".dynamic", ".dynstr", ".shstrtab", ".symtab", ".strtab"}


def facts(path):
    """What the loader reads, and the contents of the sections; None where it is not an ELF file that can be read."""
    try:
        with open(path, "rb") as f:
            elf = ELFFile(f)
            found = {"type": elf["e_type"], "machine": elf["e_machine"], "entry": elf["e_entry"], "sections": {}, "dynamic": []}
            for segment in elf.iter_segments():
                if segment["p_type"] == "PT_INTERP":
                    found["interpreter"] = segment.get_interp_name()
                if segment["p_type"] == "PT_DYNAMIC":
                    for tag in segment.iter_tags():
                        name = tag.entry.d_tag
                        text = getattr(tag, name[3:].lower(), None) if isinstance(name, str) else None
                        if text is not None:
                            found["dynamic"].append((name, text))
                        elif name in ("DT_FLAGS", "DT_FLAGS_1"):
                            found["dynamic"].append((name, tag.entry.d_val))
            for section in elf.iter_sections():
                if section.name == ".dynsym":  # but for the number of the section that a symbol is in
                    found["symbols"] = [(s.name, s["st_value"], s["st_size"], str(s["st_info"])) for s in section.iter_symbols()]
                elif section.name not in MOVED and section["sh_type"] != "SHT_NOBITS":
                    found["sections"][section.name] = section.data()
            return found
    except Exception:  # pylint: disable=broad-except
        return None


def read(path, own):
    with open(path, "rb") as f:
        data = f.read()
    for digits in own:
        data = data.replace(digits, b"e" * 32)
    return BUILD.sub(rb"\g<1>0", data)


def tree(outputs):
    own = {HASH.search(o.encode()).group(1) for o in outputs}
    found = {}
    for i, output in enumerate(sorted(outputs, key=lambda o: o.split("-", 1)[1])):
        paths = [output]
        for directory, names, files in os.walk(output) if not os.path.islink(output) else []:
            paths += [os.path.join(directory, n) for n in names + files]
        for path in paths:
            found[(i, path[len(output):])] = path
    return found, own


def normal(text, own):
    for digits in own:
        text = text.replace(digits.decode(), "e" * 32)
    return BUILD.sub(rb"\g<1>0", text.encode(errors="surrogateescape")).decode(errors="surrogateescape")


def compare(stdenv, hook):
    """Returns the counts of a pair, and the differences, each (kind, text)."""
    ours, own = tree(hook)
    theirs, their_own = tree(stdenv)
    counts = {"files": 0, "elf": 0, "bytes": 0}
    differences = []
    for name in sorted(set(ours) | set(theirs)):
        if name not in ours or name not in theirs:
            differences.append(("WRONG", f"{name[1]}: is in one of them alone"))
            continue
        a, b = theirs[name], ours[name]
        s, t = os.lstat(a), os.lstat(b)
        if s.st_mode != t.st_mode or s.st_nlink != t.st_nlink and not stat.S_ISDIR(s.st_mode):
            differences.append(("WRONG", f"{name[1]}: mode or links {s.st_mode:o} {s.st_nlink} and {t.st_mode:o} {t.st_nlink}"))
        if stat.S_ISLNK(s.st_mode):
            if normal(os.readlink(a), their_own) != normal(os.readlink(b), own):
                differences.append(("WRONG", f"{name[1]}: leads elsewhere"))
            continue
        if not stat.S_ISREG(s.st_mode):
            continue
        counts["files"] += 1
        data, ours_data = read(a, their_own), read(b, own)
        is_elf = data[:4] == b"\x7fELF"
        counts["elf"] += is_elf
        if data == ours_data:
            counts["bytes"] += is_elf
            continue
        was, now = facts(a), facts(b)
        if not is_elf or was is None or now is None:
            differences.append(("WRONG", f"{name[1]}: other bytes"))
            continue
        differences += [(kind, f"{name[1]}: {text}") for kind, text in differ(was, their_own, now, own)]
    return counts, differences


def differ(was, their_own, now, own):
    def entries(found, own):
        return [(tag, normal(str(text), own)) for tag, text in found["dynamic"]]
    # In the order of the tags: each keeps its own order, and where among the others it stands says nothing.
    left, right = (sorted(entries(*one), key=lambda e: e[0]) for one in ((was, their_own), (now, own)))
    empty = [e for e in left if e in (("DT_RUNPATH", ""), ("DT_RPATH", ""))]
    if left != right:
        if empty and [e for e in left if e not in empty] == right:
            yield "an empty run path is none", str(empty[0][0])
        else:
            yield "WRONG", f"dynamic section: {left} and {right}"
    for key in ("type", "machine", "entry", "interpreter"):
        if was.get(key) != now.get(key):
            yield "WRONG", f"{key}: {was.get(key)} and {now.get(key)}"
    if was.get("symbols") != now.get("symbols"):
        pairs = list(itertools.zip_longest(was.get("symbols", []), now.get("symbols", []), fillvalue=("",)))
        other = [(a, b) for a, b in pairs if a != b]
        if all(a[1:] == b[1:] and set(a[0][-len(b[0]):]) == {"X"} for a, b in other):
            # The linker lets a name be the tail of the run path; patchelf overwrote both before NixOS/patchelf 481 (0.18).
            yield "patchelf has overwritten the names of symbols", ", ".join(b[0] for _, b in other)
        else:
            yield "WRONG", f"symbols: {other}"
    for name in sorted(set(was["sections"]) | set(now["sections"])):
        a, b = was["sections"].get(name), now["sections"].get(name)
        for digits in their_own:
            a = a and a.replace(digits, b"e" * 32)
        for digits in own:
            b = b and b.replace(digits, b"e" * 32)
        if name == "dynstr" and a is None and not any(b):
            yield "a section of zeros, where the run path could not stay, for strip's sake", ""
        elif a != b:
            yield "WRONG", f"section {name}: {a and len(a)} and {b and len(b)} bytes"
    yield "only the bytes of .dynamic and .dynstr", ""


def main():
    passed = failed = 0
    total = {"files": 0, "elf": 0, "bytes": 0}
    kinds = {}
    print(f"{'package':34} {'files':>6} {'ELF':>5} {'same bytes':>10}")
    for line in open(sys.argv[1], encoding="utf-8"):
        name, stdenv, hook = line.split()
        if "-" in (stdenv, hook):
            ok, says = stdenv == hook, "fails with both" if stdenv == hook else "fails with one alone: " + ("the hook" if hook == "-" else "stdenv")
            if ok != name.startswith("fails") and ok:
                ok, says = False, "fails with both, and is not to"
            print(f"{name:34} {says}")
            passed, failed = passed + ok, failed + (not ok)
            continue
        counts, differences = compare(stdenv.split(","), hook.split(","))
        print(f"{name:34} {counts['files']:6} {counts['elf']:5} {counts['bytes']:10}")
        for kind, text in differences:
            kinds[kind] = kinds.get(kind, 0) + 1
            if kind == "WRONG":
                print("    " + text)
        wrong = any(kind == "WRONG" for kind, _ in differences) or name.startswith("fails")
        passed, failed = passed + (not wrong), failed + wrong
        for key in total:
            total[key] += counts[key]
    print(f"{total['files']} files, {total['elf']} ELF files, {total['bytes']} of them the same bytes; of the others:")
    for kind, n in sorted(kinds.items()):
        print(f"{n:6}  {kind}")
    print(f"{passed} passed, {failed} failed, 0 skipped")


main()
