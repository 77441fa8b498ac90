"""What gpucode-check reads and compares.

    gpucode.py agree GPU.JSON DETAILS JOBS   "runpath gpu --json" beside "cuobjdump -lelf -lptx -all", file by file
    gpucode.py missing GPU.JSON GPU DETAILS  the files with gpu-code-missing
    gpucode.py asked GPU.JSON GPU THIN.JSON  the code that a file has for other GPUs is in containers that thin left
    gpucode.py verdict <GPU.JSON             209, 222, compiled or 0
    gpucode.py doctor <DOCTOR.JSON           the same, of hostDriver doctor
    gpucode.py archs <GPU.JSON               the architectures of cubins
"""
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys

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
        other, said = theirs(record["path"])
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
