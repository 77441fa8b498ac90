"""killed.py HOSTDRIVER TREE: install and uninstall, killed at every system call that changes what is on the disk.

One that opens or locks adds no state to those between these. After each kill whatever is there is to be whole, and the next
run is to leave nothing over. Prints for each command "KILLED BROKEN LEFTOVER COMMAND": how often it was killed, and how often
one of the two was not so. A program by itself, because a process for each look at the tree took most of the suite's time."""
import os
import shutil
import subprocess
import sys

from links import whole

program, tree = sys.argv[1:]
made, run = tree + "/var/lib/hostDriver", tree + "/run"
prefix, link = made + "/opengl-driver", run + "/opengl-driver"
calls = "mkdirat symlinkat linkat renameat renameat2 unlinkat fchmodat fchmod write pwrite64 copy_file_range ftruncate"


def host_driver(*words, under=()):
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run([*under, program, *words, "-q", "--root", tree], **quiet).returncode == 0


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def is_whole():
    try:
        whole(tree, "/run/opengl-driver/lib")
    except (AssertionError, OSError):
        return False
    return True


def rest():
    """What is in the directory of the copies besides lib, links into it and the one directory that it leads to, and in /run
    besides the link."""
    over = [name for name in os.listdir(run) if name != "opengl-driver"]
    if not os.path.isdir(prefix):
        return over
    leads = os.readlink(prefix + "/lib") if os.path.islink(prefix + "/lib") else "none"
    for name in os.listdir(prefix):
        at = prefix + "/" + name
        into = os.path.islink(at) and os.readlink(at).startswith("lib/")
        if name not in ("lib", leads) and not into:
            over.append(name)
    return over


def remains():
    return os.listdir(run) + (os.listdir(made) if os.path.isdir(made) else [])


def prepare(command):
    for path in [prefix, link, made + "/made.json", *(f"{run}/{n}" for n in os.listdir(run) if n.startswith(".opengl"))]:
        remove(path)
    if command == "uninstall":
        host_driver("install")
    elif " over " in command:
        host_driver("install", "--links")
    if command.endswith(" directory"):  # as hostDriver made it before there was a link
        os.remove(link)
        os.rename(prefix, link)


for command in ["install", "install --links", "uninstall", "install over links", "install over a directory"]:
    killed = broken = leftover = 0
    for call in calls.split():
        for point in range(1, 200):
            prepare(command)
            under = ["strace", "-f", "-o", "/dev/null", "-e", "trace=" + call, "-e", f"inject={call}:signal=KILL:when={point}"]
            if host_driver(*command.split(" over ")[0].split(), under=under):
                break
            killed += 1
            if os.path.lexists(link + "/lib") and not is_whole():
                broken += 1
            if point % 2:
                good = host_driver("install") and is_whole() and not rest()
            else:
                good = host_driver("uninstall") and not remains()
            leftover += not good
    print(killed, broken, leftover, command, flush=True)
