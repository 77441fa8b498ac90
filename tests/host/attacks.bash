# shellcheck shell=bash
# shellcheck disable=SC2016  # what is in '…' is for other shells
# What a user, root in a hurry or a killed process can do to hostDriver. Small made-up libraries serve for the driver, so this
# part needs no download. Sourced by tests/host/run, which sets what is used here.
: "${root:=}" "${here:=}" "${work:=}" "${bin:=}" "${hostDriver:=}" "${namespaces:=}" "${mounts:=}" "${no_mounts:=}" "${version:=535.261.03}"
declare -a nobody

# tiny TREE [CONTENTS]: a host whose driver is three libraries of a few kilobytes; CONTENTS makes another build of them.
tiny() {
  local dir=$1/usr/lib64 name
  skeleton "$1" "$version"
  for name in cuda nvidia-ml nvidia-ptxjitcompiler; do
    tiny_library "$dir/lib$name.so.$version" "lib$name.so.1" "${2-}" || return
    ln -sfn "lib$name.so.$version" "$dir/lib$name.so.1"
  done
}
# tiny_library FILE SONAME [CONTENTS]: libcuda.so.1 names the PTX compiler, as the real one does, so it is copied.
tiny_library() {
  local names=
  [[ $2 != libcuda.so.1 ]] || names='const char *const opens = "libnvidia-ptxjitcompiler.so.1";'
  printf '%s\nint cuInit(unsigned flags) { (void)flags; return 0; }\nconst char build[] = "build %s";\nconst char room[20000] = "x";\n' \
    "$names" "${3-one}" | gcc -shared -fPIC -nostdlib -Wl,-soname,"$2" -o "$1" -x c -
}
# as_victim COMMAND…: as the user whose program is attacked.
victim_home=$work/home
as_victim() { "${nobody[@]}" env -u XDG_CACHE_HOME -u XDG_RUNTIME_DIR "HOME=$victim_home" "$@"; }
acl() { # FILE ENTRY…: POSIX ACL; an entry is TAG:PERMISSIONS:ID (acl(5); tags 1 user_obj 2 user 4 group_obj 8 group 16 mask 32 other)
  python3 - "$@" <<'PY'
import os, struct, sys
b = struct.pack("<I", 2)
for e in sys.argv[2:]:
    tag, perm, who = (int(x, 0) for x in e.split(":"))
    b += struct.pack("<HHI", tag, perm, who & 0xffffffff)
os.setxattr(sys.argv[1], "system.posix_acl_access", b)
PY
}

attacks=$work/attacks
tree=$attacks/tree
mkdir -p "$attacks" && chmod 755 "$attacks"
tiny "$tree" || no "the small driver builds"
status "attacks: (the small driver is one)" 0 hostDriver find --root "$tree"
is "attacks: (with its three libraries)" 3 "$(hostDriver find --root "$tree" --json | jq '.drivers[0].libraries | length')"

# --- the program's file descriptors --------------------------------------------------------------------------------------
echo kept >"$attacks/kept"
for n in 3 4 7 9; do
  for who in root victim; do
    as=()
    [[ $who == root ]] || as=(as_victim)
    for method in namespace library-path; do
      [[ $method == library-path || -n $namespaces ]] || continue
      out=$(eval "$(printf '%q ' "${as[@]}" "$hostDriver" run --method "$method" --root "$tree" -- sh -c "cat <&$n")" "$n<$attacks/kept" 2>&1 3<&3 </dev/null)
      is "run --method $method as $who: file descriptor $n is the program's" kept "$out"
    done
  done
done 3</dev/null

# --- the cache -----------------------------------------------------------------------------------------------------------
if ((EUID == 0)); then
  chown 65534:65534 "$victim_home"
  # Another user's directory above the cache: that user can put another one in its place at any time.
  mkdir -p "$attacks/theirs/cache" && chown 65534 "$attacks/theirs/cache" && chown 1234 "$attacks/theirs"
  status "cache: below another user's directory" 1 as_victim "$hostDriver" run --cache "$attacks/theirs/cache" --root "$tree" -- true
  like "cache: says whose" "$attacks/theirs belongs to user 1234" "$out"
  status "cache: XDG_CACHE_HOME below another user's directory is passed over" 0 \
    as_victim env "XDG_CACHE_HOME=$attacks/theirs/cache" "$hostDriver" run --root "$tree" -- true 
  is "cache: nothing is written there" "" "$(find "$attacks/theirs/cache" -mindepth 1)"
  mkdir -p "$attacks/shared/cache" && chown 65534 "$attacks/shared/cache" && chgrp 1234 "$attacks/shared" && chmod 775 "$attacks/shared"
  status "cache: below a directory that a group of users can write" 1 as_victim "$hostDriver" run --cache "$attacks/shared/cache" --root "$tree" -- true
  mkdir -p "$attacks/listed/cache" && chown 65534 "$attacks/listed/cache"
  if acl "$attacks/listed" 1:7:-1 2:7:1234 4:5:-1 16:7:-1 32:5:-1 2>/dev/null; then
    status "cache: below a directory that its ACL lets another user write" 1 as_victim "$hostDriver" run --cache "$attacks/listed/cache" --root "$tree" -- true
  else
    skip "cache: ACLs: this file system has none"
  fi
  mkdir -m 1777 "$attacks/sticky" && mkdir -p "$attacks/mine" && chown 65534 "$attacks/mine"
  ln -s "$attacks/mine" "$attacks/sticky/planted" && chown -h 1234 "$attacks/sticky/planted"
  status "cache: through another user's link in a sticky directory" 1 as_victim "$hostDriver" run --cache "$attacks/sticky/planted" --root "$tree" -- true
  ln -s "$attacks/mine" "$attacks/sticky/own" && chown -h 65534 "$attacks/sticky/own"
  status "cache: through one's own link there" 0 as_victim "$hostDriver" run --cache "$attacks/sticky/own" --root "$tree" -- true
  status "cache: in a directory of one's own in a sticky one" 0 as_victim "$hostDriver" run --cache "$attacks/sticky/new/er" --root "$tree" -- true

  # sudo that keeps HOME: nothing of root's may be left in the user's home.
  mkdir "$attacks/user" && chown 65534 "$attacks/user"
  if [[ -z $mounts ]]; then
    skip "cache: root with a user's HOME: $no_mounts"
  else
    out=$(unshare --mount sh -euc 'mount -t tmpfs -o mode=755 none /var/cache
      HOME=$3 XDG_CACHE_HOME= "$1" run --root "$2" -- true && ls /var/cache' sh "$hostDriver" "$tree" "$attacks/user" 2>&1)
    is "cache: root with a user's HOME keeps its own" hostDriver "$out"
    is "cache: and leaves nothing in that home" "" "$(find "$attacks/user" -mindepth 1)"
  fi
else
  skip "cache: attacks by another user: not root"
fi

# A program that gives up being root keeps its driver, also where root's home is closed to others and the umask is strict.
if [[ -z $mounts ]]; then
  skip "run: a program that gives up being root: ${no_mounts:-not root}"
else
  mkdir -m 700 "$attacks/roots"
  for mask in 0022 0077; do
    for method in namespace library-path; do
      is "run --method $method under umask $mask: a program that gives up being root finds its driver" "ELF $mask" \
        "$(umask "$mask" && unshare --mount sh -euc 'mount -t tmpfs -o mode=755 none /var/cache
          HOME=$3 exec env -u XDG_CACHE_HOME -u XDG_RUNTIME_DIR "$1" run --method "$4" --root "$2" -- setpriv --reuid=1234 --regid=1234 --clear-groups sh -c "$5"' sh \
          "$hostDriver" "$tree" "$attacks/roots" "$method" 'head -c 4 "${LD_LIBRARY_PATH:-/run/opengl-driver/lib}/libcuda.so.1" | tail -c 3; echo " $(umask)"' 2>&1)"
    done
  done
fi

# The swap itself: another user exchanges the directory above the cache while programs start.
if ((EUID == 0)); then
  mkdir -p "$attacks/swap/a/cache" "$attacks/swap/b" && chown -R 65534 "$attacks/swap/a/cache" && chown 1234 "$attacks/swap" "$attacks/swap/a" "$attacks/swap/b"
  command python3 - "$attacks/swap" <<'PY' &
import ctypes, os, sys, time
os.setresuid(1234, 1234, 1234)
libc, at = ctypes.CDLL(None, use_errno=True), sys.argv[1]
end = time.time() + 60
while time.time() < end and os.path.exists(at + "/a"):
    libc.syscall(316, -100, (at + "/a").encode(), -100, (at + "/b").encode(), 2)  # renameat2, RENAME_EXCHANGE
PY
  swapper=$! reached=0
  for _ in {1..40}; do
    as_victim "$hostDriver" run --cache "$attacks/swap/a/cache" --method library-path --root "$tree" -- true >/dev/null 2>&1 && reached=$((reached + 1))
  done
  kill "$swapper" && wait "$swapper" 2>/dev/null
  is "cache: forty starts while another user swaps the directory above it: none goes through it" 0 "$reached"
fi

# A home that cannot be written. (Damaged copies: pkg/host/private's tests.)
if [[ -n $mounts ]]; then
  rm -rf "$victim_home/.cache" && as_victim "$hostDriver" run --root "$tree" -- true
  read_only() { unshare --mount sh -euc 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; shift; exec "$@"' sh "$victim_home" \
    "${nobody[@]}" env -u XDG_CACHE_HOME "HOME=$victim_home" "$@"; }
  status "cache: a warm start with a read-only home" 0 read_only env -u XDG_RUNTIME_DIR "$hostDriver" run --root "$tree" -- true
  rm -rf "$victim_home/.cache"
  status "cache: a first start with a read-only home, where the driver's directory holds nothing else" 0 read_only env -u XDG_RUNTIME_DIR "$hostDriver" run --root "$tree" -- true
  : >"$tree/usr/lib64/libother.so"
  status "cache: the same where it holds more" 1 read_only env -u XDG_RUNTIME_DIR "$hostDriver" run --root "$tree" -- true
  rm "$tree/usr/lib64/libother.so"
  mkdir "$attacks/runtime" && chown 65534 "$attacks/runtime" && chmod 700 "$attacks/runtime"
  status "cache: the same with XDG_RUNTIME_DIR" 0 read_only env "XDG_RUNTIME_DIR=$attacks/runtime" "$hostDriver" run --root "$tree" -- true
else
  skip "cache: a read-only home: ${no_mounts:-not root}"
fi
if command -v strace >/dev/null; then
  # Before the rename that makes them visible, copies are on the disk.
  XDG_CACHE_HOME=$attacks/synced strace -f -y -e trace=fsync,fdatasync,syncfs,rename,renameat,renameat2 -o "$attacks/sync.log" \
    "$hostDriver" run --method library-path --root "$tree" -- true
  is "cache: a copy is synced before its directory is renamed into place" "synced renamed" \
    "$(sed -n -E '/f(data)?sync\([0-9]+<[^>]*libcuda\.so\.1>/{s/.*/synced/p}; /rename.*[\/"][0-9a-f]{32}"/{s/.*/renamed/p}' "$attacks/sync.log" | uniq | head -n 2 | tr '\n' ' ' | sed 's/ $//')"
else
  skip "cache: syncing: strace is not installed"
fi

# --- a library of the driver that cannot be used ---------------------------------------------------------------------------
tiny "$attacks/broken"
head -c 9000 "$attacks/broken/usr/lib64/libnvidia-ml.so.$version" >"$attacks/part" && cp "$attacks/part" "$attacks/broken/usr/lib64/libnvidia-ml.so.$version"
status "install: a library of the driver is cut off" 1 hostDriver install --root "$attacks/broken"
like "install: it is named, with what is wrong" "/usr/lib64/libnvidia-ml\.so\.1: not used: .*(cut off|outside the file)" "$out"
is "install: the others are there" "libcuda.so libcuda.so.1 libcuda.so.$version" "$(cd "$attacks/broken/run/opengl-driver/lib/" && echo libcuda*)"
status "doctor: says so too" 0 hostDriver doctor --root "$attacks/broken"
like "doctor: by name" "WARN +driver libraries .*libnvidia-ml\.so\.1" "$out"
if ((EUID == 0)); then
  tiny "$attacks/unreadable" && chmod 600 "$attacks/unreadable/usr/lib64/libnvidia-ml.so.$version"
  mkdir "$attacks/unreadable/home" && chown 65534 "$attacks/unreadable/home"
  status "install: a library of the driver cannot be read" 1 "${nobody[@]}" "$hostDriver" install --root "$attacks/unreadable" --prefix /home/link
  like "install: it is named" "libnvidia-ml\.so\.1: not used: permission denied" "$out"
fi

# --- who else could change the driver ------------------------------------------------------------------------------------
if ((EUID == 0)); then
  tiny "$attacks/listed-tree"
  if acl "$attacks/listed-tree/usr/lib64" 1:7:-1 2:7:1234 4:5:-1 16:7:-1 32:5:-1 2>/dev/null; then
    status "find: a directory that its ACL lets another user write" 1 hostDriver find --root "$attacks/listed-tree"
    like "find: and says whom" "user 1234 can write /usr/lib64" "$out"
    acl "$attacks/listed-tree/usr/lib64" 1:7:-1 2:7:1234 4:5:-1 16:5:-1 32:5:-1
    status "find: the mask takes that right away" 0 hostDriver find --root "$attacks/listed-tree"
    acl "$attacks/listed-tree/usr/lib64" 1:7:-1 2:7:0 4:5:-1 16:7:-1 32:5:-1
    status "find: root may write" 0 hostDriver find --root "$attacks/listed-tree"
    acl "$attacks/listed-tree/usr/lib64/libcuda.so.$version" 1:7:-1 4:5:-1 8:6:1234 16:7:-1 32:5:-1
    status "find: a file that its ACL lets a group write" 1 hostDriver find --root "$attacks/listed-tree"
  else
    skip "find: ACLs: this file system has none"
  fi
fi

# --- directories that others may search and not read ----------------------------------------------------------------------
mkdir -m 711 "$attacks/searched" && cp -a "$tree" "$attacks/searched/" && chmod 711 "$attacks/searched/tree/usr/lib64/.." && mkdir "$attacks/searched/mine"
((EUID != 0)) || chown 65534 "$attacks/searched/mine"
status "find: below a directory that may only be searched" 0 as_victim "$hostDriver" find --root "$attacks/searched/tree"
status "install: below one" 0 as_victim "$hostDriver" install --from "$attacks/searched/tree/usr/lib64" --prefix "$attacks/searched/mine/link"
is "install: there" "libcuda.so.$version" "$(readlink "$attacks/searched/mine/link/lib/libcuda.so.1")"

# --- what a killed process leaves ----------------------------------------------------------------------------------------
# with_vendors TREE [CONTENTS]: tiny, with libraries for which EGL's and OpenCL's files are made.
with_vendors() {
  local name
  tiny "$@"
  for name in libEGL_nvidia.so.0 libnvidia-opencl.so.1; do
    tiny_library "$1/usr/lib64/${name%.so*}.so.$version" "$name" "${2-}" && ln -sfn "${name%.so*}.so.$version" "$1/usr/lib64/$name"
  done
}
with_vendors "$attacks/killed"
prefix=$attacks/killed/var/lib/hostDriver/opengl-driver link=$attacks/killed/run/opengl-driver record=$attacks/killed/var/lib/hostDriver/made.json
# rest: what is in the directory of the copies besides lib, links into it and the one directory that it leads to, and in /run besides the link.
rest() {
  find "$prefix" -mindepth 1 -maxdepth 1 ! -name lib ! -lname 'lib/*' ! -name "$(readlink "$prefix/lib" 2>/dev/null || echo none)" 2>/dev/null
  find "$attacks/killed/run" -mindepth 1 -maxdepth 1 ! -name opengl-driver
}
# remains: what is there at all.
remains() { find "$attacks/killed/run" "$attacks/killed/var/lib/hostDriver" -mindepth 1 2>/dev/null; }
whole() { python3 "$here/links.py" whole "$attacks/killed" /run/opengl-driver/lib; } # does every name in the link lead to a file?
hostDriver install -q --root "$attacks/killed"
mkdir "$prefix/.new-0123456789abcdef" "$prefix/.hostDriver-00000000000000000000000000000000" && : >"$prefix/.new-0123456789abcdef/libcuda.so.1" && ln -s x "$prefix/.link-0123456789abcdef"
status "install: where the right set is there" 0 hostDriver install --root "$attacks/killed"
is "install: what a killed one left is taken away" "" "$(rest)"
if whole; then ok "install: (what is looked at after a kill is whole)"; else no "install: (what is looked at after a kill is whole)"; fi
mkdir "$prefix/.new-0123456789abcdef" && ln -s x "$prefix/.link-0123456789abcdef"
status "uninstall: with something left over" 0 hostDriver uninstall --root "$attacks/killed"
is "uninstall: nothing stays" "" "$(remains)"
mkdir -p "$prefix/.new-0123456789abcdef" "$prefix/.hostDriver-00000000000000000000000000000000"
status "uninstall: of what an install left that was killed before its end" 0 hostDriver uninstall --root "$attacks/killed"
is "uninstall: nothing stays then" "" "$(remains)"

if command -v strace >/dev/null; then
  while read -r killed broken leftover command; do
    is "$command killed at each of $killed system calls: no broken link" 0 "$broken"
    is "$command: and after the next install or uninstall nothing is left over" 0 "$leftover"
    if ((killed > 10)); then ok "$command: (it was killed often)"; else no "$command: killed $killed times"; fi
    commands=$((${commands-0} + 1))
  done < <(python3 -B "$here/killed.py" "$hostDriver" "$attacks/killed")
  is "install and uninstall killed: all five commands" 5 "${commands-0}"
else
  skip "install killed at each system call: strace is not installed"
fi

# Two installs and an uninstall at once, and a reader.
rm -rf "$prefix" "$link" "$record"
with_vendors "$attacks/other" two
mkdir -p "$attacks/killed/opt/other" && cp -a "$attacks/other/usr/lib64"/lib* "$attacks/killed/opt/other/"
wrong=0 left=0 failed_ones=0
for round in {1..40}; do
  hostDriver install -q --links --root "$attacks/killed" & one=$!
  hostDriver install -q --root "$attacks/killed" --from /opt/other & two=$!
  hostDriver uninstall -q --root "$attacks/killed" & three=$!
  for p in "$one" "$two" "$three"; do wait "$p" || failed_ones=$((failed_ones + 1)); done
  [[ ! -L $link ]] || whole || wrong=$((wrong + 1))
  if [[ -e $prefix || -L $link ]]; then
    [[ -L $prefix/lib && -L $link && -z $(rest) ]] || left=$((left + 1))
  fi
done
is "two installs and an uninstall at once, $round rounds: each ends well" 0 "$failed_ones"
is "two installs and an uninstall at once: no broken link" 0 "$wrong"
is "two installs and an uninstall at once: nothing left over" 0 "$left"
hostDriver uninstall -q --root "$attacks/killed"
if ((EUID == 0)); then
  # A user who holds a lock on the directory must not keep root from installing at boot.
  hostDriver install -q --root "$attacks/killed"
  "${nobody[@]}" flock "$prefix" sleep 30 & holder=$!
  sleep 0.3
  status "install: a user's lock on the directory does not hold it up" 0 timeout 10 "$hostDriver" install --links --root "$attacks/killed"
  kill "$holder"; wait "$holder" 2>/dev/null
fi

# --- an upgrade while programs run ----------------------------------------------------------------------------------------
# What they have loaded stays, and is never mixed with what is new; the next start has the new driver alone.
cat >"$attacks/late.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
static const char *build(const char *name) {
	void *l = dlopen(name, RTLD_NOW);
	const char *of = l ? dlsym(l, "build") : 0;
	return of ? of : "none";
}
int main(void) {
	printf("%s, ", build("libcuda.so.1"));
	fflush(stdout);
	getchar();
	printf("%s, %s\n", build("libcuda.so.1"), build("libnvidia-ml.so.1"));
	return 0;
}
C
gcc -o "$attacks/late" "$attacks/late.c" -ldl -Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib
for method in namespace library-path; do
  [[ $method == library-path || -n $namespaces ]] || continue
  rm -rf "$attacks/up" "$attacks/late-"* && tiny "$attacks/up" one && mkfifo "$attacks/late-go"
  exec 8<>"$attacks/late-go"
  pids=()
  for n in {1..50}; do
    XDG_CACHE_HOME=$attacks/late-cache "$hostDriver" run --method "$method" --root "$attacks/up" -- "$attacks/late" <"$attacks/late-go" >"$attacks/late-$n" 2>&1 8>&- &
    pids+=($!)
  done
  for _ in {1..600}; do (($(cat "$attacks"/late-[0-9]* | grep -o 'build one, ' | wc -l) == 50)) && break; sleep 0.1; done
  version=545.23.06 tiny "$attacks/up-new" two && rm "$attacks/up/usr/lib64"/lib* && cp -a "$attacks/up-new/usr/lib64"/lib* "$attacks/up/usr/lib64/" &&
    echo 545.23.06 >"$attacks/up/sys/module/nvidia/version" && sed -i "s/$version/545.23.06/" "$attacks/up/proc/driver/nvidia/version"
  is "upgrade, run --method $method: a start after it has the new driver" "build two, build two, build two" \
    "$(echo | XDG_CACHE_HOME=$attacks/late-cache "$hostDriver" run --method "$method" --root "$attacks/up" -- "$attacks/late" 2>&1)"
  printf '%50s' '' >&8
  exec 8>&-
  wait "${pids[@]}"
  is "upgrade, run --method $method: 50 programs that run keep what they have, and what is gone is no other build's" "50 build one, build one, none" \
    "$(sort "$attacks"/late-[0-9]* | uniq -c | sed 's/^ *//')"
done

# --- boot files ----------------------------------------------------------------------------------------------------------
for odd in $'a\nL+ /tmp/planted - - - - x' 'with space' 'per%cent' 'quo"te' "quo'te" 'back\slash' $'tab\there' 'ünï'; do
  dir="$attacks/odd/opt/$odd"
  rm -rf "$attacks/odd" && tiny "$attacks/odd" && mkdir -p "$dir" && mv "$attacks"/odd/usr/lib64/lib* "$dir/" && cp "$dir"/* "$attacks/odd/opt/" 2>/dev/null
  hostDriver tmpfiles --root "$attacks/odd" --from "/opt/$odd" --state-dir "/srv/$odd" --part tmpfiles >"$attacks/odd.conf" 2>"$attacks/odd.err"
  is "tmpfiles: copies in $(printf %q "$odd"): one line" 1 "$(grep -c '^L /run/opengl-driver - - - - \.\./srv/[^ ]*$' "$attacks/odd.conf")"
  is "tmpfiles: and no line of its own" 1 "$(grep -c -v '^#' "$attacks/odd.conf")"
  is "tmpfiles: nor a line of the unit" "$(hostDriver tmpfiles --root "$attacks/odd" --from /opt --program /p --part service 2>/dev/null | wc -l)" \
    "$(hostDriver tmpfiles --root "$attacks/odd" --from "/opt/$odd" --state-dir "/srv/$odd" --program "/p/$odd" --part service | wc -l)"
  if command -v systemd-tmpfiles >/dev/null && ((EUID == 0)); then
    systemd-tmpfiles --root="$attacks/odd" --create "$attacks/odd.conf" 2>&1 | head -n 3
    is "tmpfiles: systemd makes the link to it" "../srv/$odd/opengl-driver" "$(readlink "$attacks/odd/run/opengl-driver")"
  fi
done

# --- what reaches the terminal -------------------------------------------------------------------------------------------
escape=$'\033]0;planted\a'
raw() { # NAME COMMAND…: no control character but the line's end reaches the terminal, and something is said.
  local name=$1 out
  shift
  out=$("$@" 2>&1 </dev/null | tr -d '\0')
  if [[ -n $out ]] && ! LC_ALL=C grep -q $'[\001-\010\013-\037\177]' <<<"$out"; then ok "$name"; else no "$name: $(printf %q "${out:0:300}")"; fi
}
dir="$attacks/rude/opt/$escape"
tiny "$attacks/rude" && mkdir -p "$dir" && mv "$attacks"/rude/usr/lib64/lib* "$dir/"
printf 'int f(void);int g(void) { return f(); }\n' >"$attacks/g.c"
echo 'int f(void) { return 0; }' | gcc -shared -fPIC -Wl,-soname,"lib$escape.so" -o "$attacks/libf.so" -x c -
gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -Wl,--no-as-needed -o "$dir/libnvidia-ml.so.$version" "$attacks/g.c" "$attacks/libf.so"
ln -s "/nowhere/$escape" "$dir/libcuda.so.99"
raw "escapes: find" "$hostDriver" find --root "$attacks/rude" --from "/opt/$escape" --verbose
raw "escapes: install and its notes" "$hostDriver" install --root "$attacks/rude" --from "/opt/$escape" --verbose
raw "escapes: install, with its links" "$hostDriver" install --links --root "$attacks/rude" --from "/opt/$escape" --verbose --dry-run
raw "escapes: doctor" "$hostDriver" doctor --root "$attacks/rude" --from "/opt/$escape"
raw "escapes: run" "$hostDriver" run --root "$attacks/rude" --from "/opt/$escape" --verbose -- true
raw "escapes: run, a program that is not there" "$hostDriver" run --root "$tree" -- "/$escape"
raw "escapes: an argument" "$hostDriver" "$escape"
raw "escapes: a flag" "$hostDriver" find "--$escape"
raw "escapes: a root" "$hostDriver" find --root "/$escape"
raw "escapes: a cache" "$hostDriver" run --cache "/dev/null/$escape" --root "$tree" -- true
raw "escapes: a prefix" "$hostDriver" install --root "$tree" --prefix "/p/$escape" --dry-run
mkdir -p "$tree/run" && ln -sfn "/$escape" "$tree/run/opengl-driver"
raw "escapes: a link's target" "$hostDriver" install --root "$tree"
rm "$tree/run/opengl-driver"

# --- signals -------------------------------------------------------------------------------------------------------------
if [[ -n $namespaces ]]; then
  cat >"$attacks/signals.py" <<'PY'
# Starts hostDriver run, sends it signals and prints what the program got of them.
import os, signal, subprocess, sys, time
def wait(test, what):
    for _ in range(400):
        if test(): return True
        time.sleep(0.025)
    print("never:", what)
    return False
def state(pid):
    try: return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    except OSError: return "gone"
program = "import signal, time, os\nsignal.alarm(40)\nfor s in list(range(35, 65)) + [34, signal.SIGUSR1, signal.SIGWINCH, signal.SIGHUP]:\n signal.signal(s, lambda s, f: os.write(1, b'got %d\\n' % s))\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(0.05)\n"
p = subprocess.Popen(sys.argv[1:] + ["/usr/bin/python3", "-c", program], stdout=subprocess.PIPE, text=True, preexec_fn=os.setpgrp)
inner = int(p.stdout.readline())
for s in [35, 50, 64, signal.SIGUSR1, signal.SIGWINCH, signal.SIGHUP]:
    p.send_signal(s)
    print(p.stdout.readline().strip())
p.send_signal(signal.SIGTSTP)
if wait(lambda: state(inner) == "T" and state(p.pid) == "T", f"both stopped: {state(inner)} {state(p.pid)}"): print("stopped")
p.send_signal(signal.SIGCONT)
if wait(lambda: state(inner) in "SR" and state(p.pid) in "SR", f"both going on: {state(inner)} {state(p.pid)}"): print("going on")
os.killpg(p.pid, signal.SIGTSTP)
if wait(lambda: state(inner) == "T" and state(p.pid) == "T", "the group stopped"): print("stopped")
os.killpg(p.pid, signal.SIGCONT)
if wait(lambda: state(inner) in "SR" and state(p.pid) in "SR", "the group going on"): print("going on")
p.send_signal(signal.SIGTERM)
print("ended", p.wait())
PY
  want=$'got 35\ngot 50\ngot 64\ngot 10\ngot 28\ngot 1\nstopped\ngoing on\nstopped\ngoing on\nended -15'
  for who in root victim; do
    as=()
    [[ $who == root ]] || as=("${nobody[@]}" env -u XDG_CACHE_HOME "HOME=$victim_home")
    is "run as $who: signals reach the program, and stop and continue it" "$want" \
      "$(timeout -k 1 60 python3 "$attacks/signals.py" "${as[@]}" "$hostDriver" run --method namespace --root "$tree" -- 2>&1)"
  done
fi

# --- a script without #! --------------------------------------------------------------------------------------------------
printf 'echo "ran: $1"\n' >"$attacks/script" && printf '\0\1\2\3' >"$attacks/bytes" && chmod 755 "$attacks/script" "$attacks/bytes"
for method in namespace library-path; do
  [[ $method == library-path || -n $namespaces ]] || continue
  for who in root victim; do
    as=()
    [[ $who == root ]] || as=(as_victim)
    is "run --method $method as $who: a script without #! is the shell's" "ran: x" "$("${as[@]}" "$hostDriver" run --method "$method" --root "$tree" -- "$attacks/script" x 2>&1)"
    status "run --method $method as $who: bytes are not" 126 "${as[@]}" "$hostDriver" run --method "$method" --root "$tree" -- "$attacks/bytes"
  done
done

# --- the stubs for check phases, outside a build ---------------------------------------------------------------------------
if unshare --mount true 2>/dev/null; then
  # shellcheck disable=SC2016 # for the shell that unshare starts
  out=$(printf '%s\0' cudaRunpathGiven a 2 'program=1 /T' tool=stubReplace stubReplaceForChecks '' 1 1 output:out '' 1 /none |
    unshare --mount bash -c 'exec 3<"$1"; mount -t tmpfs -o mode=1777 none /tmp
      mkdir -m 777 /tmp/cuda-runpath-stubs && chown 1234 /tmp/cuda-runpath-stubs 2>/dev/null
      env -i /proc/self/fd/3 hook before | while read -r -d "" word; do
        if [[ $word == "stubs "* ]]; then stat -c "%a %U %n" "${word#stubs }"; fi
      done' bash "$bin/runpath" 2>&1)
  like "stubReplaceForChecks in /tmp: a directory of its own, of an unforeseeable name" '^700 .*/tmp/cuda-runpath-stubs\.[0-9]+$' "${out//$'\n'/ }"
else
  skip "stubReplaceForChecks in /tmp: no mount namespace here"
fi
