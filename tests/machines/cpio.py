"""Writes a directory to stdout as an initramfs (cpio, "newc": Linux Documentation/driver-api/early-userspace/buffer-format)."""
import os
import sys

out, number = sys.stdout.buffer, 0


def put(name, mode, data=b"", device=(0, 0)):
    global number
    number += 1
    name = name.encode() + b"\0"
    fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, device[0], device[1], len(name), 0]
    for part in (b"070701" + b"".join(b"%08X" % f for f in fields) + name, data):
        out.write(part + b"\0" * (-len(part) % 4))


put("dev", 0o040755)
put("proc", 0o040755)
put("dev/console", 0o020600, device=(5, 1))
for folder, folders, files in os.walk(sys.argv[1]):
    folders.sort()
    relative = os.path.relpath(folder, sys.argv[1])
    if relative not in (".", "dev"):
        put(relative, 0o040755)
    for name in sorted(files):
        with open(os.path.join(folder, name), "rb") as f:
            put(os.path.normpath(os.path.join(relative, name)), 0o100755, f.read())
put("TRAILER!!!", 0)
