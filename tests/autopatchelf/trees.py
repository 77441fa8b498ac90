"""Trees of programs and libraries as packages install them, and the calls that patch them.

Each tree is a function that fills a directory (`store`, of which `out` and its like are the package) and returns the
arguments of the call, in nixpkgs' form. Most are made from the files of Debian packages that are installed here: nobody
of this project built them.
"""
import glob
import os
import shutil
import struct
import subprocess

CC = "gcc"
LIB32 = "i686-linux-gnu-gcc"


def run(*argv, **kw):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw).stdout


def compile(out, code, *flags, cc=CC):
    os.makedirs(os.path.dirname(out), exist_ok=True)
    subprocess.run([cc, "-O1", "-Wl,--no-as-needed", "-x", "c", "-o", out, "-", "-x", "none", *flags], input=code, text=True, check=True)
    return out


def lib(out, function=None, *flags, soname=None, cc=CC, value=1):
    name = os.path.basename(out)
    function = function or name.split(".so")[0].replace("-", "_").replace("+", "x")
    return compile(out, f"int {function}(void) {{ return {value}; }}\n", "-shared", "-fPIC", f"-Wl,-soname,{soname or name}", *flags, cc=cc)


def prog(out, libs=(), *flags, cc=CC):
    calls = [os.path.basename(f).split(".so")[0].replace("-", "_").replace("+", "x") for f in libs]
    declare = "".join(f"int {c}(void);\n" for c in calls)
    return compile(out, f"{declare}int main(void) {{ return 0{''.join(f' + {c}()' for c in calls)}; }}\n",
                   "-Wl,--allow-shlib-undefined", *libs, *flags, cc=cc)


def caller(out, libs=(), *flags, cc=CC):
    calls = [os.path.basename(f).split(".so")[0].replace("-", "_").replace("+", "x") for f in libs]
    declare = "".join(f"int {c}(void);\n" for c in calls)
    name = os.path.basename(out)
    own = name.split(".")[0].replace("-", "_")
    return compile(out, f"{declare}int {own}(void) {{ return 0{''.join(f' + {c}()' for c in calls)}; }}\n",
                   "-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,--allow-shlib-undefined", *libs, *flags, cc=cc)


def versioned(path, versions, extra=""):
    """A library whose function f has the newest of some versions."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    script = path + ".map"
    with open(script, "w") as f:
        before = ""
        for i, v in enumerate(versions):
            f.write(f"{v} {{ {'global: f' + str(i) + ';' if i else 'global: f0; local: *;'} }} {before};\n")
            before = v
    code = "".join(f"int f{i}(void) {{ return {i}; }}\n" for i in range(len(versions))) + extra
    compile(path, code, "-shared", "-fPIC", f"-Wl,--version-script={script}", f"-Wl,-soname,{os.path.basename(path)}")
    os.remove(script)
    return path


def note(path, description):
    """An object with a .note.dlopen note (systemd, ELF_DLOPEN_METADATA), to link in."""
    text = description.encode() + b"\0"
    data = struct.pack("<III", 4, len(text), 0x407C0C0A) + b"FDO\0" + text + b"\0" * (-len(text) % 4)
    source = '.section .note.dlopen,"a",@note\n.balign 4\n.byte ' + ",".join(str(b) for b in data) + "\n.section .note.GNU-stack,\"\",@progbits\n"
    subprocess.run([CC, "-c", "-x", "assembler", "-o", path, "-"], input=source, text=True, check=True)
    return path


def glibc(store):
    """The C library of this machine, laid out as nixpkgs' bintools tell of one."""
    libdir = f"{store}/glibc/lib"
    os.makedirs(libdir)
    for f in glob.glob("/lib/x86_64-linux-gnu/*"):
        name = os.path.basename(f)
        if name.split(".so")[0] in ("libc", "libm", "libmvec", "libdl", "libpthread", "librt", "libutil", "libresolv", "libnsl", "libanl",
                                    "ld-linux-x86-64", "libBrokenLocale", "libthread_db"):
            shutil.copy(f, f"{libdir}/{name}")
    os.makedirs(f"{store}/bintools/nix-support")
    with open(f"{store}/bintools/nix-support/dynamic-linker", "w") as f:
        f.write(f"{libdir}/ld-linux-x86-64.so.2\n")
    with open(f"{store}/bintools/nix-support/orig-libc", "w") as f:
        f.write(f"{store}/glibc\n")


# ------------------------------------------------------------------------------------------------ trees made here

def simple(s):
    foo, bar = lib(f"{s}/foo/lib/libfoo.so.1"), lib(f"{s}/bar/lib/libbar.so.2")
    prog(f"{s}/out/bin/main", [foo, bar])
    return ["--libs", f"{s}/foo/lib", f"{s}/bar/lib"]


def order_of_needs(s):
    """The run path is in the order of the needs, not of the inputs."""
    libs = [lib(f"{s}/p{i}/lib/lib{c}.so.1") for i, c in enumerate("defabc")]
    prog(f"{s}/out/bin/main", libs)
    return ["--libs", *[f"{s}/p{i}/lib" for i in reversed(range(6))]]


def own_subdirectory(s):
    own = lib(f"{s}/out/lib/private/libown.so")
    caller(f"{s}/out/lib/libfront.so", [own])
    prog(f"{s}/out/bin/main", [f"{s}/out/lib/libfront.so"])
    return []


def plugins(s):
    foo = lib(f"{s}/foo/lib/libfoo.so.1")
    caller(f"{s}/out/lib/node_modules/x/build/addon.node", [foo])
    caller(f"{s}/out/lib/python3/site-packages/_C.cpython-312-x86_64-linux-gnu.so", [foo])
    caller(f"{s}/out/libexec/plugin", [foo])
    return ["--libs", f"{s}/foo/lib"]


def several_outputs(s):
    lib(f"{s}/lib/lib/libfoo.so.1")
    lib(f"{s}/dev/lib/libbar.so.1")
    prog(f"{s}/out/bin/main", [f"{s}/lib/lib/libfoo.so.1", f"{s}/dev/lib/libbar.so.1"])
    return ["--paths", f"{s}/out", f"{s}/lib", f"{s}/dev"]


def origin_bundle(s):
    lib(f"{s}/out/opt/lib/libfoo.so")
    prog(f"{s}/out/opt/bin/main", [f"{s}/out/opt/lib/libfoo.so"], "-Wl,-rpath,$ORIGIN/../lib")
    return []


def append_origin(s):
    foo = lib(f"{s}/foo/lib/libfoo.so.1")
    caller(f"{s}/out/lib/libmain.so", [foo])
    lib(f"{s}/out/lib/libalone.so")
    return ["--libs", f"{s}/foo/lib", "--append-rpaths", "$ORIGIN", "/run/opengl-driver/lib/"]


def runtime_dependencies(s):
    foo, late = lib(f"{s}/foo/lib/libfoo.so.1"), lib(f"{s}/late/lib/liblate.so.1")
    prog(f"{s}/out/bin/main", [foo])
    caller(f"{s}/out/lib/libx.so", [foo])
    return ["--libs", f"{s}/foo/lib", "--runtime-dependencies", f"{os.path.dirname(late)}", f"{s}/foo//lib/"]


def keep_libc(s):
    prog(f"{s}/out/bin/main", [lib(f"{s}/foo/lib/libfoo.so.1")])
    return ["--libs", f"{s}/glibc/lib", f"{s}/foo/lib", "--keep-libc"]


def ignore_existing(s):
    own, other = lib(f"{s}/out/lib/libfoo.so.1"), lib(f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/bin/main", [own])
    return ["--libs", f"{s}/foo/lib", "--ignore-existing"]


def no_recurse(s):
    foo = lib(f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/main", [foo])
    prog(f"{s}/out/bin/deep", [foo])
    return ["--no-recurse", "--libs", f"{s}/foo/lib"]


def single_files(s):
    foo = lib(f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/bin/one", [foo])
    prog(f"{s}/out/bin/two", [foo])
    return ["--paths", f"{s}/out/bin/one", "--libs", foo]


def links_same_name(s):
    """A link to a file of the same name: the directory is the file's."""
    lib(f"{s}/real/lib/deep/libfoo.so.1")
    os.makedirs(f"{s}/foo/lib")
    os.symlink(f"{s}/real/lib/deep/libfoo.so.1", f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/bin/main", [f"{s}/foo/lib/libfoo.so.1"])
    return ["--libs", f"{s}/foo/lib"]


def links_other_name(s):
    """A link to a file of another name: the directory is the link's (nixpkgs 210908)."""
    lib(f"{s}/real/lib/libfoo.so.1.2.3", soname="libfoo.so.1")
    os.makedirs(f"{s}/foo/lib")
    os.symlink(f"{s}/real/lib/libfoo.so.1.2.3", f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/bin/main", [f"{s}/foo/lib/libfoo.so.1"])
    return ["--libs", f"{s}/foo/lib"]


def linked_directory(s):
    lib(f"{s}/foo/lib/libfoo.so.1.2", soname="libfoo.so.1")
    os.symlink("libfoo.so.1.2", f"{s}/foo/lib/libfoo.so.1")
    lib(f"{s}/foo/lib/libbar.so.1")
    os.symlink("lib", f"{s}/foo/lib64")
    prog(f"{s}/out/bin/main", [f"{s}/foo/lib/libfoo.so.1", f"{s}/foo/lib/libbar.so.1"])
    return ["--libs", f"{s}/foo/lib64"]


def links_in_the_tree(s):
    lib(f"{s}/out/lib/libfoo.so.1.2.3", soname="libfoo.so.1")
    os.symlink("libfoo.so.1.2.3", f"{s}/out/lib/libfoo.so.1")
    os.symlink("libfoo.so.1", f"{s}/out/lib/libfoo.so")
    prog(f"{s}/out/bin/main", [f"{s}/out/lib/libfoo.so"])
    os.symlink("../bin/main", f"{s}/out/lib/main")
    return []


def thirty_two_bits(s):
    foo, foo32 = lib(f"{s}/foo/lib/libfoo.so.1"), lib(f"{s}/foo32/lib/libfoo.so.1", cc=LIB32)
    prog(f"{s}/out/bin/main", [foo])
    prog(f"{s}/out/bin/main32", [foo32], cc=LIB32)
    return ["--libs", f"{s}/foo32/lib", f"{s}/foo/lib"]


def other_machine(s):
    foo = lib(f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/bin/main", [foo])
    prog(f"{s}/out/bin/arm", (), cc="aarch64-linux-gnu-gcc")
    return ["--libs", f"{s}/foo/lib"]


def left_alone(s):
    foo = lib(f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/bin/main", [foo])
    prog(f"{s}/out/bin/static", (), "-static", "-no-pie")
    compile(f"{s}/out/lib/x.o", "int x;", "-c")
    run("ar", "cr", f"{s}/out/lib/libx.a", f"{s}/out/lib/x.o")
    for name, data in ("text.so", "INPUT(libfoo.so)\n"), ("empty.so", ""), ("short", "\x7fELF"):
        with open(f"{s}/out/lib/{name}", "w") as f:
            f.write(data)
    return ["--libs", f"{s}/foo/lib"]


def old_run_path(s):
    """Replaced where something is found, left where nothing is."""
    foo = lib(f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/bin/main", [foo], "-Wl,-rpath,/build/x:/opt/lib")
    prog(f"{s}/out/bin/old", [foo], "-Wl,--disable-new-dtags,-rpath,/build/x")
    lib(f"{s}/out/lib/libalone.so", None, "-Wl,-rpath,/build/y")
    return ["--libs", f"{s}/foo/lib"]


def inputs_run_paths(s):
    """Libraries that only the run path of an input leads to."""
    deep = lib(f"{s}/deep/lib/libdeep.so.1")
    mid = caller(f"{s}/mid/lib/libmid.so.1", [deep], f"-Wl,--enable-new-dtags,-rpath,{s}/deep/lib")
    foo = caller(f"{s}/foo/lib/libfoo.so.1", [mid], f"-Wl,--enable-new-dtags,-rpath,{s}/mid/lib")
    prog(f"{s}/out/bin/main", [foo, mid, deep])
    return ["--libs", f"{s}/foo/lib"]


def own_store_run_path(s):
    foo = lib(f"{s}/foo/lib/libfoo.so.1")
    caller(f"{s}/out/lib/libx.so", [foo], f"-Wl,--enable-new-dtags,-rpath,{s}/foo/lib")
    return []


def dlopen_note(s):
    foo, bar = lib(f"{s}/foo/lib/libfoo.so.1"), lib(f"{s}/bar/lib/libbar.so.2")
    n = note(f"{s}/note.o", '[{"soname":["libnone.so.1","libbar.so.2"],"feature":"x","priority":"suggested"}]')
    prog(f"{s}/out/bin/main", [foo], n)
    return ["--libs", f"{s}/foo/lib", f"{s}/bar/lib"]


def ignored(s):
    foo, gone = lib(f"{s}/foo/lib/libfoo.so.1"), lib(f"{s}/gone/lib/libgone.so.5")
    prog(f"{s}/out/bin/main", [foo, gone])
    return ["--libs", f"{s}/foo/lib", "--ignore-missing", "libg[o]ne.so.*"]


def absolute_need(s):
    foo = lib(f"{s}/foo/lib/libfoo.so.1", soname=f"{s}/foo/lib/libfoo.so.1")
    prog(f"{s}/out/bin/main", [foo])
    return ["--libs", f"{s}/foo/lib"]


def many_duplicates(s):
    libs = [lib(f"{s}/foo/lib/lib{c}.so.1") for c in "abcdef"]
    prog(f"{s}/out/bin/main", libs)
    return ["--libs", f"{s}/foo/lib", f"{s}/foo/lib/", f"{s}/foo/./lib"]


def force_rpath(s):
    prog(f"{s}/out/bin/main", [lib(f"{s}/foo/lib/libfoo.so.1")])
    return ["--libs", f"{s}/foo/lib", "--extra-args", "--force-rpath"]


def musl_alone(s):
    """Musl's files in a tree of their own, no glibc about: nixpkgs' program and ours both look for the names."""
    lib(f"{s}/out/lib/libfoo.so.1")
    return []


# ------------------------------------------------------------------------------------- trees of Debian's packages

def is_elf(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def needed(path):
    out = subprocess.run(["readelf", "-dW", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [line.split("[")[1].split("]")[0] for line in out.splitlines() if "(NEEDED)" in line]


def package_files(package):
    out = subprocess.run(["dpkg-query", "-L", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [p for p in out.stdout.splitlines() if os.path.lexists(p) and (os.path.islink(p) or os.path.isfile(p))]


def debian(package, most=60 << 20):
    def tree(s):
        size, elfs = 0, []
        for p in package_files(package):
            if "/doc/" in p or "/locale/" in p or "/man/" in p or "/include/" in p:
                continue
            to = f"{s}/out{os.path.realpath(os.path.dirname(p))}/{os.path.basename(p)}"  # /bin is /usr/bin
            os.makedirs(os.path.dirname(to), exist_ok=True)
            if os.path.lexists(to):
                continue
            if os.path.islink(p):
                if not os.path.lexists(to):
                    os.symlink(os.readlink(p), to)
                continue
            if size + os.path.getsize(p) > most:
                continue
            size += os.path.getsize(p)
            shutil.copy(p, to)
            os.chmod(to, 0o755)
            if is_elf(to):
                elfs.append(to)
        if not elfs:
            return None
        inputs = inputs_of(s, elfs)
        return ["--libs", *inputs]
    tree.__name__ = "debian_" + package
    return tree


def unpacked(path, more=()):
    """What a package of npm, of Debian's non-free section or another holds, unpacked at a path, as a tree. Libraries that it
    needs come from more, directories of other such packages, and from this machine."""
    def tree(s):
        shutil.copytree(path, f"{s}/out", symlinks=True)
        elfs = []
        for d, _, files in os.walk(f"{s}/out"):
            os.chmod(d, 0o755)
            for f in files:
                if is_elf(f"{d}/{f}"):
                    os.chmod(f"{d}/{f}", 0o755)
                    elfs.append(f"{d}/{f}")
        if not elfs:
            return None
        inputs = inputs_of(s, elfs, [d for m in more if m != path for d, _, files in os.walk(m) if any(".so" in f for f in files) and "/stubs" not in d])
        return ["--libs", *inputs]
    tree.__name__ = os.path.basename(path)
    return tree


def inputs_of(s, elfs, first=()):
    """A directory for each library that is needed and not in the tree, as separate packages would have them; from the first
    directory that has it."""
    own = {n for _, dirs, files in os.walk(f"{s}/out") for n in files}
    todo, inputs, done = [n for e in elfs for n in needed(e)], [], set()
    while todo:
        name = todo.pop(0)
        if name in done or name in own or os.path.exists(f"{s}/glibc/lib/{name}"):
            continue
        done.add(name)
        for d in *first, "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/llvm-14/lib":
            if os.path.exists(f"{d}/{name}"):
                real = os.path.realpath(f"{d}/{name}")
                to = f"{s}/{name.split('.so')[0]}/lib"
                os.makedirs(to, exist_ok=True)
                if not os.path.exists(f"{to}/{os.path.basename(real)}"):
                    shutil.copy(real, f"{to}/{os.path.basename(real)}")
                if not os.path.lexists(f"{to}/{name}"):
                    os.symlink(os.path.basename(real), f"{to}/{name}")
                inputs.append(to)
                todo += needed(real)
                break
    return list(dict.fromkeys(inputs))


MADE = [simple, order_of_needs, own_subdirectory, plugins, several_outputs, origin_bundle, append_origin, runtime_dependencies, keep_libc,
        ignore_existing, no_recurse, single_files, links_same_name, links_other_name, linked_directory, links_in_the_tree, thirty_two_bits,
        other_machine, left_alone, old_run_path, inputs_run_paths, own_store_run_path, dlopen_note, ignored, absolute_need, many_duplicates,
        force_rpath, musl_alone]

PACKAGES = ["binutils-x86-64-linux-gnu", "libbinutils", "elfutils", "git", "gdb", "jq", "file", "mold", "strace", "patchelf", "zsh", "procps",
            "xz-utils", "util-linux", "coreutils", "bash", "perl-base", "libperl5.36", "curl", "openssl", "libssl3", "nix-bin", "python3.11-minimal",
            "libpython3.11-minimal", "libpython3.11-stdlib", "systemd", "dpkg", "passwd", "libgcc-12-dev", "cpp-12", "g++-12", "lld-14", "e2fsprogs",
            "tar", "gzip", "sed", "findutils", "apt", "libapt-pkg6.0", "libglib2.0-0", "libkrb5-3", "libpam-modules", "libcap2-bin", "make"]


# ------------------------------------------------------------------------------------------------- random trees

NAMES = "kquv"  # libraries; each may need those behind it
VERSIONS = {1: ["V_1"], 2: ["V_1", "V_2"], 3: ["V_2"]}

# Starts, then for each list of plugins ("--" between them) opens them one after the other in a process of its own, and prints
# a line: for each plugin "+", or "-" where it was not opened; then the files that the process has mapped, if asked.
OPEN_ALL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int show(struct dl_phdr_info *i, size_t n, void *p) { if (*i->dlpi_name == '/' || *i->dlpi_name == '.') printf(" %s", i->dlpi_name); return 0; }
int main(int argc, char **argv) {
  setvbuf(stdout, 0, _IOFBF, 1 << 16);
  for (int i = 1; i <= argc; i++) {
    int to = i;
    while (to < argc && strcmp(argv[to], "--")) to++;
    if (!fork()) {
      for (; i < to; i++) putchar(dlopen(argv[i], RTLD_NOW) ? '+' : '-');
      dl_iterate_phdr(show, 0);
      putchar('\n');
      fflush(stdout);
      _exit(0);
    }
    wait(0);
    i = to;
  }
  return 0;
}
"""


class Pool:
    """Files by what they are made of: each is compiled once, for any number of trees."""

    def __init__(self, directory):
        self.directory, self.files = directory, {}
        os.makedirs(directory)
        for name in NAMES:
            for variant, versions in VERSIONS.items():
                self.stub(name, variant)

    def stub(self, name, variant):
        """A library to link with, which needs nothing."""
        path = f"{self.directory}/link/{variant}/lib{name}.so"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".map", "w") as f:
            f.write(f"V_1 {{ global: {name}1; local: *; }};\nV_2 {{ global: {name}2; }};\n" if variant == 2 else f"V_{1 if variant == 1 else 2} {{ global: {name}{1 if variant == 1 else 2}; local: *; }};\n")
        code = "".join(f"int {name}{v[2:]}(void) {{ return {v[2:]}; }}\n" for v in VERSIONS[variant])
        return compile(path, code, "-shared", "-fPIC", "-nostdlib", f"-Wl,--version-script={path}.map,-soname,lib{name}.so")

    def file(self, kind, name, variant, needs, tag, entries):
        """kind is library, plugin or program; needs are pairs of a library and a version; entries are those of the run path."""
        key = (kind, name, variant, needs, tag, entries)
        if key in self.files:
            return self.files[key]
        path = f"{self.directory}/{len(self.files)}.elf"
        calls = [f"{n}{v}" for n, v in needs]
        body = "".join(f" + {c}()" for c in calls)
        code = "".join(f"int {c}(void);\n" for c in calls)
        flags = [f"-L{self.directory}/link/2", *[f"-l{n}" for n, _ in needs], "-Wl,--allow-shlib-undefined"]
        if entries:
            flags.append(f"-Wl,{'--disable-new-dtags' if tag == 'RPATH' else '--enable-new-dtags'},-rpath,{':'.join(entries)}")
        if kind == "program":
            code = OPEN_ALL + code + f"int used(void) {{ return 0{body}; }}\n"
        else:
            flags += ["-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{name if kind == 'plugin' else f'lib{name}.so'}"]
            if kind == "library":
                flags.append(f"-Wl,--version-script={self.directory}/link/{variant}/lib{name}.so.map")
                code += "".join(f"int {name}{v[2:]}(void) {{ return {v[2:]}{body}; }}\n" for v in VERSIONS[variant])
            else:
                code += f"int plugin(void) {{ return 0{body}; }}\n"
        self.files[key] = compile(path, code, *flags)
        return path


def random_tree(rng, pool, s):
    """Fills s/out with packages of libraries, programs and plugins, and s/libs0 and s/libs1 with libraries. Returns the paths of
    the programs and of the plugins below s."""
    site = rng.random() < 0.4
    packages = [f"out/lib/node_modules/p{i}" if site else f"out/p{i}" for i in range(rng.choice([1, 1, 2, 3]))]
    ways = [(), ("$ORIGIN",), ("$ORIGIN/../lib",), ("$ORIGIN/../deps",), ("/gone", "$ORIGIN/../lib"), ("$ORIGIN/../lib", "$ORIGIN/../deps")]

    def some(behind):
        rest = [n for n in NAMES if not behind or n > behind]
        return tuple(sorted((n, rng.choice([1, 1, 2])) for n in rng.sample(rest, min(len(rest), rng.choice([0, 1, 1, 2])))))

    def place(to, *spec):
        os.makedirs(os.path.dirname(f"{s}/{to}"), exist_ok=True)
        shutil.copy(pool.file(*spec), f"{s}/{to}")
        return to

    def library(directory, name):
        place(f"{directory}/lib{name}.so", "library", name, rng.choice([1, 2, 2, 3]), some(name), rng.choice(["RPATH", "RUNPATH"]), rng.choice(ways))

    programs, plugins = [], []
    for p in packages:
        for directory in "lib", "deps":
            for name in NAMES:
                if rng.random() < 0.25:
                    library(f"{p}/{directory}", name)
        for i in range(rng.choice([0, 1, 1, 2])):
            programs.append(place(f"{p}/bin/run{i}", "program", "run", 0, some(""), rng.choice(["RPATH", "RUNPATH"]), rng.choice(ways)))
        for i in range(rng.choice([0, 1, 2])):
            name = f"plugin{len(plugins)}.so"
            plugins.append(place(f"{p}/plugins/{name}", "plugin", name, 0, some(""), rng.choice(["RPATH", "RUNPATH"]), rng.choice(ways)))
    for directory in "libs0", "libs1":  # of packages that work: what they need is there
        os.makedirs(f"{s}/{directory}")
        there = {}
        for name in reversed(NAMES):
            if rng.random() < 0.6:
                needs = tuple(sorted((n, rng.choice([int(v[2:]) for v in VERSIONS[there[n]]])) for n in there if rng.random() < 0.3))
                there[name] = rng.choice([1, 2, 2, 3])
                place(f"{directory}/lib{name}.so", "library", name, there[name], needs, rng.choice(["RPATH", "RUNPATH"]), ("$ORIGIN",))
    return programs, plugins
