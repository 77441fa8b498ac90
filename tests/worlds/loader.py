"""loader.py LOADER DIRECTORY OUT: a copy of Debian's loader as one of a Nix store is: it searches DIRECTORY, whose name is of 22
characters, by itself, and it has no cache."""
import sys

data, own = open(sys.argv[1], "rb").read(), sys.argv[2].encode()
dirs = [b"/lib/x86_64-linux-gnu/", b"/usr/lib/x86_64-linux-gnu/", b"/lib/", b"/usr/lib/"]
for old, new in (
    (b"".join(d + b"\0" for d in dirs), b"".join(d + b"\0" for d in [own] + [d.replace(b"lib", b"nix") for d in dirs[1:]])),
    (b"/etc/ld.so.cache\0", b"/nix/ld.so.cache\0"),
    (b"/etc/ld.so.preload\0", b"/nix/ld.so.preload\0"),
):
    if old not in data or len(old) != len(new):
        sys.exit(f"{sys.argv[1]}: this loader is built in another way: {old}")
    data = data.replace(old, new)
open(sys.argv[3], "wb").write(data)
