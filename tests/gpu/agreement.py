"""Compare `runpath explain --json` with the machine's own loader, file by file.

    agreement.py TREE DETAILS [FILE…]

The judge is the loader itself in its tracing mode (what ldd uses), run on every dynamic ELF file of TREE and on the files
named. Two maps from needed name to file must be equal; paths are compared as files, since the loader prints them as found.
Prints the counts; the differences go to DETAILS. Exit status 1 if there are any.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

LOADER = os.environ["RUNPATH_LD_SO"]
LINE = re.compile(r"^\s*(\S+)(?: => (\S.*?))? \(0x[0-9a-f]+\)$|^\s*(\S+) => not found$")


def dynamic(path):
    """Is this a 64-bit ELF file that the loader would list: a library or a program with a dynamic section?"""
    try:
        with open(path, "rb") as f:
            head = f.read(18)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and head[4] == 2 and head[16:18] in (b"\x02\x00", b"\x03\x00")


def real(path):
    """The loader's map, or None where it refuses the file (another machine's, static)."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
    env["LD_TRACE_LOADED_OBJECTS"] = "1"
    try:
        p = subprocess.run([LOADER, path], env=env, capture_output=True, text=True, errors="surrogateescape", timeout=60)
    except subprocess.TimeoutExpired:
        return None
    if p.returncode not in (0, 1) or "statically linked" in p.stdout:
        return None
    found = {}
    for line in p.stdout.splitlines():
        m = LINE.match(line)
        if m and m.group(3):
            found[m.group(3)] = None
        elif m:  # a name alone: found in the working directory, or asked for by its path
            found[m.group(1)] = m.group(2) or m.group(1)
    return found or None


def ours(path):
    # Candidates of dlopen are left out: the tracing loader does not know of them.
    p = subprocess.run(["runpath", "explain", "--no-dlopen", "--json", path], capture_output=True, text=True, errors="surrogateescape")
    try:
        file = json.loads(p.stdout)["files"][0]
    except (ValueError, LookupError):
        return f"no JSON: {p.stderr.strip()[:200]}"
    return {library["soname"]: library["path"] for library in file["libraries"]}


def compare(path):
    want = real(path)
    if want is None:
        return path, None, []
    got = ours(path)
    if isinstance(got, str):
        return path, len(want), [got]
    differences = []
    for name, file in want.items():
        if name.startswith("linux-vdso") or os.path.basename(name).startswith("ld-linux"):
            continue
        mine = got.get(name, "not mentioned")
        same = mine == file or (mine and file and os.path.exists(mine) and os.path.realpath(mine) == os.path.realpath(file))
        if not same:
            differences.append(f"{name}: loader {file}, explain {mine}")
    return path, len(want), differences


def main():
    tree, details, *files = sys.argv[1:]
    files = [f for f in files if os.path.exists(f)]
    for directory, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(directory, name)
            if not os.path.islink(path) and dynamic(path):
                files.append(path)
    compared = refused = names = bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool, open(details, "w", errors="surrogateescape") as out:
        for path, count, differences in pool.map(compare, files):
            if count is None:
                refused += 1
                continue
            compared += 1
            names += count
            if differences:
                bad += 1
                print(path, *differences, sep="\n  ", file=out)
    print(f"{compared} files and {names} libraries compared, {bad} files differ, {refused} refused by the loader")
    sys.exit(1 if bad or not compared else 0)


main()
