"""same.py THINNED CUT: two libraries, thinned in place and cut, and what memory.c wrote of them, at the same paths with ".mem".

Each byte of a segment of the first is in the memory of the second, or is zero and in a page that cannot be read there.
Headers, .dynamic, and sections that made room for more program headers are elsewhere, or say something else.
"""
import struct
import sys


class Image:
    def __init__(self, path):
        self.file, memory = (open(path + end, "rb").read() for end in ("", ".mem"))
        pages = range(0, len(memory), 4097)
        self.readable = [memory[i] for i in pages]
        self.memory = bytearray().join(memory[i + 1 : i + 4097] for i in pages)
        phoff, shoff = struct.unpack_from("<QQ", self.file, 32)
        phnum, _, shnum = struct.unpack_from("<HHH", self.file, 56)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.file, phoff + 56 * i) for i in range(phnum)]
        self.sections = [struct.unpack_from("<IIQQQQ", self.file, shoff + 64 * i) for i in range(shnum)]

    def forget(self, address, size):
        self.memory[address : address + size] = bytes(size)


a, b = map(Image, sys.argv[1:3])
span = len(a.memory)
b.forget(span, len(b.memory) - span)
b.memory = b.memory[:span]
for image in a, b:
    image.forget(0, 64 + 56 * len(b.segments))
    for kind, _, _, address, _, _, size, _ in image.segments:
        if kind == 2:
            image.forget(address, size)
    mapped = bytearray(span)
    for kind, _, _, address, _, _, size, _ in a.segments:
        if kind == 1:
            mapped[address : address + size] = b"\1" * size
    for start in range(0, span, 4096):
        if not all(mapped[start : start + 4096]):
            for i in range(start, start + 4096):
                image.memory[i] *= mapped[i]
for s, t in zip(a.sections, b.sections):
    if s[3] != t[3]:
        a.forget(s[3], s[5])
different = 0
cut = 0
for page in range(span // 4096):
    was, now = (image.memory[page * 4096 : page * 4096 + 4096] for image in (a, b))
    if a.readable[page] and not b.readable[page]:
        cut += 1
    if was != now:
        different += 1
        print(f"page {page * 4096:#x} differs")
print(f"{cut} pages cut, {different} differ, {len(a.file) - len(b.file)} bytes shorter")
sys.exit(different > 0 or cut == 0 or len(a.file) - len(b.file) < cut * 4096 - 64 * 1024)
