"""What gpucode-check reads and compares.

    gpucode.py agree GPU.JSON DETAILS JOBS   "runpath gpu --json" beside "cuobjdump -lelf -lptx -all", file by file
    gpucode.py missing GPU.JSON GPU DETAILS  the files with gpu-code-missing
    gpucode.py asked GPU.JSON GPU THIN.JSON  the code that a file has for other GPUs is in containers that thin left
    gpucode.py rest BEFORE.JSON AFTER.JSON GPU length|disk   each file beside what is not GPU code and what the GPU can use
    gpucode.py edited THIN.JSON              the files that were edited, below what all have in common
    gpucode.py verdict <GPU.JSON             209, 222, compiled or 0
    gpucode.py doctor <DOCTOR.JSON           the same, of hostDriver doctor
    gpucode.py archs <GPU.JSON               the architectures of cubins
"""
import collections
import concurrent.futures
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

LINE = re.compile(r"^(ELF|PTX) file +\d+: .*\.sm_(\d+\w?)\.(?:cubin|ptx)$", re.M)
SEEN = (".nv_fatbin", "__nv_relfatbin", "")  # the sections that cuobjdump reads; "" is a file of containers


def ours(record):
    """The counts of a file by kind and architecture: in the sections that cuobjdump reads, and elsewhere."""
    seen, unseen = collections.Counter(), collections.Counter()
    for section in record["sections"]:
        for code in section["code"]:
            if code["kind"] in ("cubin", "PTX"):
                to = seen if section["name"] in SEEN else unseen
                to[code["kind"], code["arch"].split("_")[1]] += code["entries"]
    return seen, unseen


def pieces(path):
    """The parts of the file that are called .nv_fatbin or __nv_relfatbin, by name; none, where each is whole."""
    found = {}
    with open(path, "rb") as f:
        head = f.read(64)
        if head[:6] != b"\x7fELF\2\1":
            return {}
        (shoff,), (size, count, names) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HHH", head, 58)
        f.seek(shoff)
        table = f.read(size * count)
        rows = [struct.unpack_from("<IIQQQQ", table, size * i) for i in range(count)]
        f.seek(rows[names][4])
        text = f.read(rows[names][5])
        for name, _, _, _, off, length in rows:
            found.setdefault(text[name:].split(b"\0")[0].decode(), []).append((off, length))
    found = {name: parts for name, parts in found.items() if name and name in SEEN}
    return found if any(len(parts) > 1 for parts in found.values()) else {}


def joined(path, directory):
    """A library with the pieces of a file's GPU code as one section, which cuobjdump reads; the file, where it is in one."""
    found = pieces(path)
    if not found:
        return path
    made = tempfile.mktemp(dir=directory)
    lines = []
    for name, parts in found.items():
        lines.append(f'.section {name},"a",@progbits')
        lines += [f'.balign 8\n.incbin "{path}",{off},{length}' for off, length in parts]
    subprocess.run(["gcc", "-shared", "-nostdlib", "-x", "assembler", "-", "-o", made], input="\n".join(lines) + "\n", text=True, check=True, timeout=200)
    return made


def theirs(path):
    p = subprocess.run(["cuobjdump", "-lelf", "-lptx", "-all", path], capture_output=True, text=True, errors="replace", timeout=300)
    count = collections.Counter(("cubin" if kind == "ELF" else "PTX", arch) for kind, arch in LINE.findall(p.stdout))
    return count, (p.stderr.strip().splitlines() or [""])[-1]


def without_letters(count):
    """The counts by kind and number: older cuobjdumps read the letter of sm_90a elsewhere, and do not know all."""
    out = collections.Counter()
    for (kind, arch), n in count.items():
        out[kind, arch.rstrip("af")] += n
    return out


def compare(record):
    seen, unseen = ours(record)
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = joined(record["path"], directory)
            other, said = theirs(path)
            record["alone"] = sum((other if path == record["path"] else theirs(record["path"])[0]).values())
            record["joined"] = path != record["path"]
    except subprocess.TimeoutExpired:
        return record, "slow", "cuobjdump takes more than 300 s", unseen
    if seen == other:
        return record, "same", "", unseen
    differs = "; ".join(f"{kind} {arch}: {seen[kind, arch]} here, {other[kind, arch]} there" for kind, arch in sorted(set(seen) | set(other)) if seen[kind, arch] != other[kind, arch])
    return record, "letters" if without_letters(seen) == without_letters(other) else "differs", differs + (" " + said if said else ""), unseen


def agree(document, details, jobs):
    records = [r for r in json.load(open(document))["files"] if r["containers"]]
    records.sort(key=lambda r: -r["bytes"])
    results = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool, open(details, "w") as out:
        shown = 0
        for record, result, text, unseen in pool.map(compare, records):
            results[result] += 1
            name = os.path.basename(record["path"])
            entries = sum(c["entries"] for c in record["code"])
            print(f"{result} {record['path']}: {record['containers']} containers, {entries} entries {text}", file=out)
            kinds = sorted({c["kind"] for c in record["code"]} - {"cubin", "PTX"})
            elsewhere = ", ".join(f"{s['containers']} containers ({s['bytes'] / 1e6:.0f} MB) in {s['name']}" for s in record["sections"] if s["name"] not in SEEN)
            if result != "same" and shown < 12:
                shown += 1
                print(f"      {result} {name}: {text[:400]}")
            if elsewhere:
                print(f"      {name}: cuobjdump does not see {elsewhere}: {sum(unseen.values())} cubins and PTX")
            if kinds or record["damaged"]:
                print(f"      {name}: {', '.join(kinds)}{' damaged: ' + record['damaged'][0] if record['damaged'] else ''}")
    print(f"      {len(records)} files: {dict(results)}")
    if cut := [r for r in records if r.get("joined")]:
        print(f"      {len(cut)} files have their code in pieces, which were joined for it; of the files themselves it lists {sum(r['alone'] for r in cut)} of {sum(c['entries'] for r in cut for c in r['code'])}")
    return 0 if records and not results["differs"] and not results["slow"] else 1


def missing(document, gpu, details):
    document = json.load(open(document))
    found = [(r["path"], f["message"]) for r in document["files"] for f in r.get("findings", []) if f["id"] == "gpu-code-missing"]
    with open(details, "w") as out:
        for path, message in found:
            print(path, message, file=out)
    names = ", ".join(os.path.basename(p) for p, _ in found)
    print(f"      {gpu}: {len(found)} of {len(document['files'])} files{': ' + names[:500] if found else ''}")
    return 0


def asked(document, gpu, thinned):
    """Cubins for others are in containers of them alone, or in what the library's own code looks up: no more than thin says."""
    left = {r["path"]: sum(r["left"].values()) for r in json.load(open(thinned))["files"]}
    number, more, total, files = int(gpu.replace(".", "")), 0, 0, 0
    for record in json.load(open(document))["files"]:
        if not record.get("thinned"):
            continue
        files += 1
        others = {}
        for section in record["sections"]:
            for code in section["code"]:
                arch = int(code["arch"].split("_")[1].rstrip("af"))
                fits = code["kind"] not in ("cubin", "PTX") or (arch // 10 == number // 10 and arch <= number if code["kind"] == "cubin" else arch <= number)
                total += code["entries"]
                if not fits:
                    others[code["arch"]] = others.get(code["arch"], 0) + code["entries"]
        if others:
            print(f"      {os.path.basename(record['path'])}: {others} in {left.get(record['path'])} containers that were left")
        more += bool(others) and not left.get(record["path"])
    print(f"      {files} thinned files, {total} entries")
    return 0 if files and not more else 1


def usable(code, number):
    """Whether a GPU of that capability could use the code, by NVIDIA's rules."""
    arch = code["arch"].split("_")[1]
    of, letter = int(arch.rstrip("af")), arch[-1:].isalpha()
    if code["kind"] == "cubin" or letter:
        return of == number if arch.endswith("a") else of // 10 == number // 10 and of <= number
    return code["kind"] != "PTX" or of <= number


def rest(before, after, gpu, measured):
    """How much larger files are than what is not GPU code, and what the GPU can use."""
    documents = [json.load(open(d))["files"] for d in (before, after)]
    roots = [os.path.commonpath([r["path"] for r in d]) for d in documents]
    was = {os.path.relpath(r["path"], roots[0]): r for r in documents[0]}
    number, rows = int(gpu.replace(".", "")), []
    for r in documents[1]:
        name = os.path.relpath(r["path"], roots[1])
        if not r.get("thinned") or name not in was:
            continue
        stat = os.stat(r["path"])
        size = stat.st_size if measured == "length" else stat.st_blocks * 512
        use = sum(c["bytes"] for c in r["code"] if usable(c, number))
        least = os.stat(was[name]["path"]).st_size - was[name]["bytes"] + use
        rows.append((size / least, size, least, r["bytes"] - use, os.path.basename(name)))
    rows.sort(reverse=True)
    for ratio, size, least, other, name in rows[:5]:
        print(f"      {ratio:.3f} {name}: {size / 1e6:.1f} MB; without code for others {least / 1e6:.1f}; {other / 1e6:.1f} MB of that is in containers that were left")
    within = sum(ratio <= 1.02 for ratio, *_ in rows)
    print(f"      {measured}: {within} of {len(rows)} files have at most 1.02 times what they need; together {sum(r[1] for r in rows) / 1e6:.0f} MB of {sum(r[2] for r in rows) / 1e6:.0f}, and {sum(r[3] for r in rows) / 1e6:.0f} of it were left")
    return 0 if rows else 1


def edited(document):
    paths = [r["path"] for r in json.load(open(document))["files"] if r["action"] == "edited"]
    root = os.path.commonpath([os.path.dirname(p) for p in paths])
    print(root, *[os.path.relpath(p, root) for p in paths], sep="\n")
    return 0


def verdict():
    findings = [f for r in json.load(sys.stdin)["files"] for f in r.get("findings", [])]
    for f in findings:
        if f["id"] == "gpu-code-missing":
            print(re.search(r"error (\d+)", f["message"]).group(1))
            return 0
    print("compiled" if any(f["id"] == "gpu-code-jit" for f in findings) else 0)
    return 0


def doctor():
    facts = [f for f in json.load(sys.stdin)["facts"] if f["subject"] == "GPU code"]
    for f in facts:
        if f.get("error"):
            print(f["error"])
            return 0
    print("compiled" if any("compiles kernels" in f["text"] for f in facts) else 0 if facts else "nothing")
    return 0


def archs():
    print(" ".join(sorted({c["arch"] for r in json.load(sys.stdin)["files"] for c in r["code"] if c["kind"] == "cubin"})))
    return 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
