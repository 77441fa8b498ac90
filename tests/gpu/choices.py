"""Judge noRunpathAmbiguity's JSON report by brute force: list every directory of every run path and compare.

    choices.py REPORT DETAILS

A file has a choice where two directories of its run path hold different ELF files (by content) of one name. Prints the
counts; where report and brute force differ, DETAILS says so. Exit status 1 if they do, or if nothing was looked at.
"""
import collections
import functools
import hashlib
import json
import os
import sys


@functools.lru_cache(None)
def libraries(directory):
    """The names in the directory that could be loaded, with the file each leads to."""
    found = {}
    try:
        for entry in os.scandir(directory):
            if ".so" in entry.name and entry.is_file():
                found[entry.name] = os.path.realpath(entry.path)
    except OSError:
        pass
    return found


@functools.lru_cache(None)
def content(path):
    with open(path, "rb") as f:
        head = f.read(20)
        if head[:4] != b"\x7fELF":
            return None
        # The class and machine count: a 32-bit library is no choice for a 64-bit program.
        return head[4:6] + head[18:20] + hashlib.file_digest(f, "sha256").digest()


def choices(path, entries):
    origin = os.path.dirname(os.path.abspath(path))
    directories = []
    for entry in entries:
        directory = os.path.realpath(entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin))
        if entry and directory not in directories:
            directories.append(directory)
    candidates = collections.defaultdict(set)
    for directory in directories:
        for name, file in libraries(directory).items():
            candidates[name].add(file)
    own = content(os.path.realpath(path))[:4]
    names = set()
    for name, files in candidates.items():
        if len(files) > 1:
            kinds = {content(f) for f in files} - {None}
            if len([k for k in kinds if k[:4] == own]) > 1:
                names.add(name)
    return names


def main():
    report = json.load(open(sys.argv[1]))
    looked = expected = differ = 0
    with open(sys.argv[2], "w", errors="surrogateescape") as details:
        for file in report["files"]:
            if file["action"] in ("skipped", "failed"):
                continue
            looked += 1
            want = choices(file["path"], file["after"])
            got = set()
            for finding in file["findings"]:
                if finding["id"] == "ambiguous-library":
                    got |= set(finding.get("libraries") or [finding["library"]])
            expected += len(want)
            if want != got:
                differ += 1
                print(file["path"], "brute force:", sorted(want), "report:", sorted(map(str, got)), file=details)
    print(f"{looked} files, {expected} choices by brute force, {differ} files on which the report differs")
    sys.exit(1 if differ or not looked else 0)


main()
