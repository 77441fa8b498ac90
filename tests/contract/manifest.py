#!/usr/bin/env python3
"""Holds a manifest (`runpath manifest`) against what others say of the same files.

    manifest.py DOCUMENT [--cuobjdump PROGRAM]

readelf says the headers, the dynamic section and the build ID; the machine's own loader where a library's needed libraries are;
cuobjdump, where it is given, how many cubins and PTX .nv_fatbin has for which architecture (cuFFT and cuSPARSE have more elsewhere,
which it does not look at; one of CUDA 11 or 12.4 does not unpack what CUDA 12.8 packs); nix-store, where the package is in its
store, what it refers to and what a closure loses. The bytes of GPU code are read here, from the containers of .nv_fatbin and
of other sections. Prints how many values agree, and each that does not; the status is then 1.
"""

import collections
import json
import os
import re
import struct
import subprocess
import sys

agree = 0
wrong = 0


def same(what, path, said, found):
    global agree, wrong
    if said == found:
        agree += 1
        return
    wrong += 1
    if wrong <= 40:
        print(f"{path}: {what}: the manifest says {said!r}, it is {found!r}")


def run(*argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return p.stdout.decode("utf-8", "replace")


def readelf(path):
    """What readelf says of a file."""
    text = run("readelf", "-hdlnSW", path)
    of = lambda pattern: re.findall(pattern, text, re.M)
    run_path = of(r"\((RUNPATH|RPATH)\).*\[(.*)\]$")
    tags = dict(run_path)
    tag = "RUNPATH" if "RUNPATH" in tags else "RPATH" if "RPATH" in tags else None
    sections = []
    for s in of(r"^\s*\[ *\d+\] (\S+)\s+(\S+)\s+[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+) [0-9a-f]+\s+([A-Za-z]*)\s+\d+\s+\d+\s+\d+"):
        sections.append((s[0], s[1], int(s[2], 16), int(s[3], 16), s[4]))
    return {
        "soname": (of(r"\(SONAME\).*\[(.*)\]$") or [None])[0],
        "needed": of(r"\(NEEDED\).*\[(.*)\]$"),
        "tag": tag and "DT_" + tag,
        "run_path": tags[tag].split(":") if tag and tags[tag] else [],
        "interpreter": (of(r"program interpreter: (.*)\]$") or [None])[0],
        "build_id": (of(r"Build ID: ([0-9a-f]+)$") or [None])[0],
        "type": (of(r"^\s*Type:\s+(\S+)") or [None])[0],
        "machine": (of(r"^\s*Machine:\s+(.*)$") or [None])[0],
        "sections": sections,
    }


MACHINES = {"Advanced Micro Devices X86-64": "EM_X86_64", "AArch64": "EM_AARCH64", "Intel 80386": "EM_386"}


def containers(data):
    """The entries of the containers in some bytes: {(kind, arch): [entries, bytes]}, and what the containers take."""
    at, total = 0, 0
    found = collections.defaultdict(lambda: [0, 0])
    while True:
        at = data.find(b"\x50\xed\x55\xba", at)
        if at < 0:
            return found, total
        if at % 8 or len(data) - at < 16:
            at += 4
            continue
        _, version, header, size = struct.unpack_from("<IHHQ", data, at)
        end = at + header + size
        if version != 1 or end > len(data):
            at += 4
            continue
        pos = at + header
        while pos < end:
            kind, _, head, size = struct.unpack_from("<HHIQ", data, pos)
            arch, = struct.unpack_from("<I", data, pos + 28)
            flags, = struct.unpack_from("<Q", data, pos + 40)
            special = "a" if flags & 1 << 20 else "f" if flags & 1 << 21 else ""
            name = {1: "compute_", 8: "lto_"}.get(kind, "sm_") + str(arch) + special
            found[{1: "PTX", 2: "cubin", 8: "LTO-IR"}.get(kind, f"kind {kind:#x}"), name][0] += 1
            found[{1: "PTX", 2: "cubin", 8: "LTO-IR"}.get(kind, f"kind {kind:#x}"), name][1] += head + size
            pos += head + size
        total += end - at
        at = end


def gpu_code(path, elf):
    """The GPU code of an ELF file, section by section."""
    found, total, own = collections.defaultdict(lambda: [0, 0]), 0, collections.Counter()
    names = {s[0] for s in elf["sections"]}
    if not names & {".nv_fatbin", "__nv_relfatbin", ".nvFatBinSegment"}:
        return found, 0, own
    with open(path, "rb") as f:
        for name, kind, off, size, flags in elf["sections"]:
            if kind != "PROGBITS" or "A" not in flags or "X" in flags or name in (".nvFatBinSegment", ".eh_frame", ".eh_frame_hdr"):
                continue
            f.seek(off)
            some, n = containers(f.read(size))
            total += n
            for key, (entries, size) in some.items():
                found[key][0] += entries
                found[key][1] += size
                if name == ".nv_fatbin":
                    own[key] += entries
    return found, total, own


def listed(code):
    out = collections.defaultdict(lambda: [0, 0])
    for c in code:
        out[c["kind"], c["arch"]][0] += c["entries"]
        out[c["kind"], c["arch"]][1] += c["bytes"]
    return out


def cuobjdump(program, path, own):
    """The number of cubins and PTX of each architecture, as NVIDIA's program lists them."""
    for flag, kind, pattern in (("--list-elf", "cubin", r"\.(sm_\w+)\.cubin"), ("--list-ptx", "PTX", r"\.(sm_\w+)\.ptx")):
        count = collections.Counter(re.findall(pattern, run(program, flag, path)))
        said = collections.Counter()
        for (k, a), n in own.items():
            if k == kind:  # CUDA 13.0's names code for a family, sm_100f, as sm_100
                said[a.replace("compute_", "sm_").removesuffix("f")] += n
        same("cuobjdump " + flag, path, dict(said), {a.removesuffix("f"): n for a, n in count.items()})


def loader(path, elf):
    """Where the machine's loader finds what a library or program needs: {name: path}."""
    text = run("ldd", path)
    found = {}
    for name, to in re.findall(r"^\s(\S+) => (.*?)(?: \(0x[0-9a-f]+\))?$", text, re.M):
        found[name] = None if to == "not found" else to
    return found


STORE = re.compile(rb"/nix/store/[0-9a-z]{32}-[0-9A-Za-z+._?=-]+")


def main():
    argv = sys.argv[1:]
    program = None
    if "--cuobjdump" in argv:
        i = argv.index("--cuobjdump")
        program = argv[i + 1]
        del argv[i : i + 2]
    with open(argv[0], "rb") as f:
        document = json.load(f)
    files = collections.defaultdict(dict)
    for f in document["files"]:
        files[f["package"]][f["path"]] = f
    for package in document["packages"]:
        root = package["path"]
        ours = files[root]
        total = number = gpu = 0
        seen = set()
        refers = collections.Counter()
        sums = collections.defaultdict(lambda: [0, 0])
        in_store = root.startswith("/nix/store/")
        for at, below, names in os.walk(root):
            for name in names + [d for d in below if os.path.islink(os.path.join(at, d))]:
                path = os.path.join(at, name)
                short = os.path.relpath(path, root)
                if os.path.islink(path):
                    for hit in set(STORE.findall(os.fsencode(os.readlink(path)))):
                        if hit.decode() != root:
                            refers[hit.decode()] += 1
                    continue
                st = os.stat(path)
                again = (st.st_dev, st.st_ino) in seen and not in_store
                seen.add((st.st_dev, st.st_ino))
                if not again:
                    total += st.st_size
                    number += 1
                f = ours.get(short)
                with open(path, "rb") as file:
                    data = file.read()
                named = set(hit.decode() for hit in STORE.findall(data)) - {root}
                if not again:
                    for hit in named:
                        refers[hit] += 1
                if data[:4] != b"\x7fELF":
                    continue
                same("is listed", path, f is not None, True)
                if f is None or again:
                    continue
                same("size", path, f["size"], st.st_size)
                same("store paths", path, sorted(r["object"] for r in f.get("references", []) if "object" in r), sorted(named))
                if f["kind"] == "malformed":
                    continue
                elf = readelf(path)
                for key in ("soname", "tag", "interpreter", "build_id"):
                    same(key, path, f.get(key), elf[key])
                same("needed", path, f.get("needed", []), elf["needed"])
                same("run path", path, f.get("run_path", []), elf["run_path"])
                if elf["machine"] in MACHINES:
                    same("machine", path, f.get("machine"), MACHINES[elf["machine"]])
                code, n, own = gpu_code(path, elf)
                of = f.get("gpu", {"bytes": 0, "code": []})
                same("bytes of GPU code", path, of["bytes"], n)
                same("GPU code", path, dict(listed(of["code"])), dict(code))
                gpu += n
                for key, (entries, size) in code.items():
                    sums[key][0] += entries
                    sums[key][1] += size
                if program and n:
                    cuobjdump(program, path, own)
                if f["kind"] in ("library", "program") and elf["needed"]:
                    where = loader(path, elf)
                    for lib in f.get("loads", []):
                        if lib["name"] in where and lib["rule"] not in ("the loader itself",):
                            to = lib["path"]
                            if to and not to.startswith("/"):
                                to = os.path.join(os.path.abspath(root), to)
                            theirs = where[lib["name"]]
                            same("the loader's " + lib["name"], path, to and os.path.normpath(to), theirs and os.path.normpath(theirs))
        same("bytes", root, package["bytes"], total)
        same("files", root, package["files"], number)
        if not any(f["kind"] in ("archive",) or f["kind"] == "GPU code" for f in ours.values()):
            same("bytes of GPU code", root, package["gpu"]["bytes"], gpu)
            same("GPU code", root, dict(listed(package["gpu"]["code"])), dict(sums))
        same("references", root, {r["object"]: r["files"] for r in package["references"] if "object" in r}, dict(refers))
        if in_store and run("nix-store", "-q", "--hash", root):
            # Nix finds a hash without the path around it too, but not more than we do here.
            theirs = set(run("nix-store", "-q", "--references", root).split()) - {root}
            same("nix-store's references", root, sorted(theirs), sorted(r["object"] for r in package["references"] if r.get("object") and r["bytes"] is not None))
            for r in package["references"]:
                if r["bytes"] is None:
                    continue
                rest = [p for p in theirs if p != r["object"]]
                keep = set(run("nix-store", "-qR", *rest).split()) if rest else set()
                lost = set(run("nix-store", "-qR", r["object"]).split()) - keep - {root}
                same("bytes that are lost without " + r["object"], root, r["bytes"], sum(int(run("nix-store", "-q", "--size", p)) for p in lost))
    same("files", "summary", document["summary"]["files"], len(document["files"]))
    same("bytes", "summary", document["summary"]["bytes"], sum(p["bytes"] for p in document["packages"]))
    print(f"{agree} values agree, {wrong} do not")
    sys.exit(wrong > 0)


main()
