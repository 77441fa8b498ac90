"""links.py leads|whole TREE DIR: the links in a directory of a tree, followed as from inside the tree.

leads prints each link's name and where it leads; whole fails where not all of the driver of attacks.bash is there."""
import os
import sys


def resolve(root, path):
    todo, at = path.split("/"), "/"
    while todo:
        c = todo.pop(0)
        if c in ("", "."):
            continue
        if c == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, c)
        if not os.path.islink(root + here):
            at = here
            continue
        target = os.readlink(root + here)
        if target.startswith(root + "/"):
            target = target[len(root):]
        if target.startswith("/"):
            at = "/"
        todo = target.split("/") + todo
    return at


def names_in(root, at):
    return sorted(set(os.listdir(root + at)) - {"etc", "share"})


def whole(root, directory):
    """Raises where not all of the driver of attacks.bash is there."""
    at = resolve(root, directory)
    names = names_in(root, at)
    assert "libcuda.so.1" in names and len(names) == 15, names
    for name in names:
        assert os.path.getsize(root + resolve(root, at + "/" + name)) > 20000, name
    named = set()
    for file in ("share/glvnd/egl_vendor.d/10_nvidia.json", "etc/OpenCL/vendors/nvidia.icd"):
        with open(root + at + "/" + file) as opened:
            text = opened.read()
        named |= {n for n in names if f"{directory}/{n}" in text.replace('"', "\n").split("\n")}
        beside = root + os.path.dirname(directory) + "/" + file.split("/")[0]  # made after lib, and never before
        assert not os.path.lexists(beside) or os.readlink(beside) == "lib/" + file.split("/")[0], beside
    assert named == {"libEGL_nvidia.so.0", "libnvidia-opencl.so.1"}, named


if __name__ == "__main__":
    what, tree, directory = sys.argv[1:]
    if what == "whole":
        whole(tree, directory)
    else:
        at = resolve(tree, directory)
        for name in names_in(tree, at):
            if os.path.islink(tree + at + "/" + name):  # not vdpau and gbm
                print(name, resolve(tree, at + "/" + name))
