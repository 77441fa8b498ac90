"""Splits the packages of a Python environment into a directory for each distribution, as Nix has them.

    wheels.py SITE-PACKAGES STORE

Prints a line for each: its directory and how many ELF files it has. What a distribution has is what its RECORD says.
"""
import csv
import hashlib
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

DIGITS = "0123456789abcdfghijklmnpqrsvwxyz"  # of Nix's hashes


def files(site, info):
    """What a distribution installed: the files of its RECORD, and their compiled forms."""
    with open(f"{site}/{info}/RECORD", newline="") as f:
        for row in csv.reader(f):
            yield row[0]
            directory, name = os.path.split(row[0])
            cached = f"{directory}/__pycache__/{name.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
            if name.endswith(".py") and os.path.exists(f"{site}/{cached}"):
                yield cached


def copy(site, to, file):
    """Copies a file and returns whether it is ELF."""
    source, target = f"{site}/{file}", os.path.normpath(f"{to}/{file}")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.exists(target):
        shutil.copy2(source, target)
    with open(source, "rb") as f:
        return f.read(4) == b"\x7fELF"


def main():
    site, store = sys.argv[1:]
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(site)))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        wheels = []
        for info in sorted(os.listdir(site)):
            if not info.endswith(".dist-info") or not os.path.exists(f"{site}/{info}/RECORD"):
                continue
            number = int.from_bytes(hashlib.sha256(info.encode()).digest()[:20])
            hashed = "".join(DIGITS[number >> 5 * i & 31] for i in range(32))
            wheel = f"{store}/{hashed}-{info.removesuffix('.dist-info')}"
            to = f"{wheel}/{os.path.relpath(site, prefix)}"
            there = [f for f in set(files(site, info)) if os.path.normpath(f"{site}/{f}").startswith(prefix + "/") and os.path.isfile(f"{site}/{f}")]
            wheels.append((wheel, [threads.submit(copy, site, to, f) for f in there]))
        for wheel, copied in wheels:
            print(wheel, sum(c.result() for c in copied))


main()
