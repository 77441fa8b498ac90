"""What a reader that shares no code with the tools finds in an ELF file: what they report is judged by it."""
import struct

DT_NEEDED, DT_STRTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 14, 15, 29
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK = 1, 2, 3, 0x6474E551


class Layout:
    """Where the headers of one class and byte order have their fields: offset and format."""

    def __init__(self, data):
        self.wide = data[4] == 2
        self.order = "<" if data[5] == 1 else ">"
        self.word = "Q" if self.wide else "I"
        self.header = dict(type=(16, "H"), machine=(18, "H"), entry=(24, self.word), phoff=(32 if self.wide else 28, self.word),
                           shoff=(40 if self.wide else 32, self.word), ehsize=(52 if self.wide else 40, "H"),
                           phentsize=(54 if self.wide else 42, "H"), phnum=(56 if self.wide else 44, "H"),
                           shentsize=(58 if self.wide else 46, "H"), shnum=(60 if self.wide else 48, "H"), shstrndx=(62 if self.wide else 50, "H"))
        names = ["type", "flags", "offset", "vaddr", "paddr", "filesz", "memsz", "align"] if self.wide else \
            ["type", "offset", "vaddr", "paddr", "filesz", "memsz", "flags", "align"]
        self.program, at = {}, 0
        for name in names:
            kind = "I" if name in ("type", "flags") or not self.wide else "Q"
            self.program[name] = (at, kind)
            at += struct.calcsize(kind)
        self.phsize, self.dynsize = at, 16 if self.wide else 8

    def get(self, data, at, kind):
        return struct.unpack_from(self.order + kind, data, at)[0]

    def put(self, data, at, kind, value):
        size = struct.calcsize(kind)
        struct.pack_into(self.order + kind, data, at, value % (1 << 8 * size))

    def headers(self, data):
        """Where each program header begins."""
        phoff, phnum = (self.get(data, *self.header[name]) for name in ("phoff", "phnum"))
        return [phoff + i * self.phsize for i in range(phnum)]

    def segments(self, data):
        return [{name: self.get(data, at + offset, kind) for name, (offset, kind) in self.program.items()} for at in self.headers(data)]

    def dynamic(self, data):
        """Tag, value and offset of each entry of the dynamic section, without DT_NULL."""
        for segment in self.segments(data):
            if segment["type"] == PT_DYNAMIC:
                for at in range(segment["offset"], segment["offset"] + segment["filesz"], self.dynsize):
                    tag, value = self.get(data, at, self.word), self.get(data, at + self.dynsize // 2, self.word)
                    if tag == 0:
                        return
                    yield tag, value, at
                return


def read(data):
    """The parts that the tools report; None for what cannot be read, or can be read in two ways."""
    if data[:4] != b"\x7fELF" or len(data) < 52 or data[4] not in (1, 2) or data[5] not in (1, 2):
        return None
    try:
        at = Layout(data)
        segments = at.segments(data)
        loads = [s for s in segments if s["type"] == PT_LOAD]
        entries = list(at.dynamic(data))
        tags = [tag for tag, _, _ in entries]
        if any(tags.count(tag) > 1 for tag in (DT_STRTAB, DT_SONAME, DT_RPATH, DT_RUNPATH)) or sum(s["type"] == PT_DYNAMIC for s in segments) > 1:
            return None

        def text(offset):
            end = data.index(b"\0", offset)
            return bytes(data[offset:end])

        def loaded(address):
            found = {s["offset"] + address - s["vaddr"] for s in loads if s["vaddr"] <= address < s["vaddr"] + s["filesz"]}
            if len(found) != 1:
                raise ValueError("not loaded, or twice")
            return found.pop()

        def string(offset):
            return text(loaded(value_of[DT_STRTAB] + offset))

        value_of = {tag: value for tag, value, _ in entries}
        found = {"tag": "", "runpath": [], "needed": [string(v) for tag, v, _ in entries if tag == DT_NEEDED], "soname": b"", "interpreter": b"", "execstack": False}
        for tag, name in ((DT_RPATH, "DT_RPATH"), (DT_RUNPATH, "DT_RUNPATH")):
            if tag in value_of:
                found["tag"], listed = name, string(value_of[tag])
                found["runpath"] = listed.split(b":") if listed else []
        if DT_SONAME in value_of:
            found["soname"] = string(value_of[DT_SONAME])
        for segment in segments:
            if segment["type"] == PT_INTERP:
                found["interpreter"] = bytes(data[segment["offset"]:segment["offset"] + segment["filesz"]]).rstrip(b"\0")
            if segment["type"] == PT_GNU_STACK:
                found["execstack"] = segment["flags"] & 1 == 1
        return found
    except (struct.error, ValueError, KeyError, IndexError, OverflowError, MemoryError):
        return None
