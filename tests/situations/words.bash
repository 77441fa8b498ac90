# shellcheck shell=bash
# The words of the situations: each makes a file in the current directory, or below /run/opengl-driver, which a situation has
# for itself. situations.py sources this, then the situations of a kind, and calls one, with OBJECTS (compiled objects, by their contents) and
# START (where `start` writes what is to be run) set.
#
# Whatever a library or program needs may be missing, older or of another kind when it runs: nothing is checked at the link.

set -eu -o pipefail
# shellcheck source-path=SCRIPTDIR source=../gpucode.bash
. "$SITUATIONS/../gpucode.bash"
machine=x86_64 text='' versions='' asked='' gpu='' because='' limit=''

# on MACHINE WORD…: for x86_64, i386, arm64, s390x, x32, or musl on this machine
on() { local machine=$1; shift; "$@"; }
# with TEXT WORD…: the library or program has this C text too; a program's must define `int run(void)`, whose value is its status
with() { local text=$1; shift; "$@"; }
# versioned SCRIPT WORD…: the library's symbols have these versions, say 'V1 { f_x; }; V2 { f_y; } V1;'
versioned() { local versions=$1; shift; "$@"; }
# cannot WHY: this machine cannot make the situation, which is skipped
cannot() { echo "$*" >&2; exit 77; }
requires() { local tool; for tool in "$@"; do command -v "$tool" >/dev/null || cannot "$tool is not installed"; done; }

# compiler: in $cc, the machine's, with flags that make its programs start here
compiler() {
  local linker=''
  case $machine in
    x86_64) cc=(gcc) ;;
    musl) cc=(musl-gcc) ;;
    i386) cc=(i686-linux-gnu-gcc) linker=ld-linux.so.2 ;;
    arm64) cc=(aarch64-linux-gnu-gcc) linker=ld-linux-aarch64.so.1 ;;
    s390x) cc=(s390x-linux-gnu-gcc) linker=ld64.so.1 ;;
    x32) cc=(gcc -mx32 -nostdlib) ;; # libraries only: Debian's kernels start no such programs
    *) cannot "unknown machine $machine" ;;
  esac
  requires "${cc[0]}"
  own=()
  if [[ $linker ]]; then
    linker=$(realpath "$("${cc[@]}" -print-file-name=$linker)")
    own=("-Wl,--dynamic-linker,$linker" "-Wl,-rpath,${linker%/*}")
  fi
}

# make_object TEXT FLAG…: in $object, the compiled text
make_object() {
  local key
  key=$(printf '%s\0' "$machine" "$@" | sha256sum)
  object=$OBJECTS/${key%% *}.o
  [[ -e $object ]] && return
  printf '%s\n' "$1" | "${cc[@]}" -w -O1 "${@:2}" -c -x c - -o "$object.$$"
  mv "$object.$$" "$object"
}

# link OUT KIND TEXT [FLAG…]: flags of the compiler and of the linker, and libraries, in any order; KIND is shared or program
link() {
  local out=$1 kind=$2 source=$3 argument object report='' cc own
  local -a compiling=() linking=()
  shift 3
  compiler
  mkdir -p "$(dirname "$out")"
  for argument; do
    case $argument in
      -[DfmO]*) compiling+=("$argument") ;;
      *) linking+=("$argument") ;;
    esac
  done
  if [[ $kind == program ]]; then
    make_object "$(<"$SITUATIONS/report.c")"
    report=$object
    linking+=(-ldl "${own[@]}")
    kind=pie
  else
    compiling+=(-fPIC)
  fi
  make_object "$source" "${compiling[@]}"
  if [[ $versions ]]; then
    echo "$versions" >"$OBJECTS/versions.$$"
    linking+=("-Wl,--version-script=$OBJECTS/versions.$$")
  fi
  "${cc[@]}" "-$kind" -o "$out" "$object" ${report:+"$report"} -Wl,--no-as-needed,--allow-shlib-undefined,--unresolved-symbols=ignore-all \
    -Wl,-z,lazy,--enable-new-dtags,--build-id=none,--hash-style=gnu "${linking[@]}"
}

# function_of FILE: f_x of libx.so.1, the function that every library defines
function_of() { local name; name=$(basename "$1"); name=${name%%.so*}; echo "f_$(tr -c 'a-zA-Z0-9\n' _ <<<"${name#lib}")"; }

# library OUT SONAME [FLAG or LIBRARY…]: defines f_NAME, which returns 0; SONAME may be ''
library() {
  local out=$1 soname=$2
  shift 2
  link "$out" shared "int $(function_of "$out")(void) { return 0; }"$'\n'"$text" ${soname:+"-Wl,-soname,$soname"} "$@"
}

# program OUT [FLAG or LIBRARY…]: needs the libraries, and prints what is in the process
program() {
  local out=$1
  shift
  link "$out" program "struct open { const char *name; int mode; }; const struct open opens[] = {{0, 0}}; const char *const entry = \"plugin\";
    ${text:-int run(void) { return 0; \}}" "$@"
}

# opener OUT [--lazy|--now|--global|--close|--entry FUNCTION] NAME… [-- FLAG or LIBRARY…]: opens the names in order, RTLD_NOW unless
# --lazy stands before it, passes over what cannot be opened, and calls `plugin` (or FUNCTION) of what has one
opener() {
  local out=$1 mode=2 entry=plugin table=''
  shift
  while (($#)) && [[ $1 != -- ]]; do
    case $1 in
      --lazy) mode=$((mode & ~2 | 1)) ;;
      --now) mode=$((mode & ~1 | 2)) ;;
      --global) mode=$((mode | 0x100)) ;;
      --local) mode=$((mode & ~0x100)) ;;
      --noload) mode=$((mode | 4)) ;;
      --close) mode=$((mode | 0x10000)) ;;
      --entry) entry=$2; shift ;;
      *) table+="{\"$1\", $mode}, " ;;
    esac
    shift
  done
  (($# == 0)) || shift
  link "$out" program "struct open { const char *name; int mode; }; const struct open opens[] = {$table{0, 0}}; const char *const entry = \"$entry\";
    ${text:-int run(void) { return 0; \}}" "$@"
}

# driver OUT STATUS, stub OUT: a libcuda.so.1 whose cuInit answers STATUS, or 34, as NVIDIA's stubs do
driver() {
  local out=$1 status=$2
  shift 2
  link "$out" shared "int cuInit(unsigned f) { return $status; } int cuDriverGetVersion(int *v) { *v = 12040; return $status; } $text" -Wl,-soname,libcuda.so.1 "$@"
}
stub() { driver "$1" 34 "${@:2}"; }
# host: the host's driver, at the driver link
host() { driver "${1:-/run/opengl-driver/lib}/libcuda.so.1" 0; }
# cuda_program OUT …, cuda_library OUT SONAME …: as program and library, and they call cuInit; the library in `plugin`
cuda_program() { with "int cuInit(unsigned); int run(void) { return cuInit(0); }"$'\n'"$text" program "$@"; }
cuda_library() { with "int cuInit(unsigned); int plugin(void) { return cuInit(0); }"$'\n'"$text" library "$@"; }
# caller OUT …: a program that calls `plugin` of its libraries
caller() { with "int plugin(void); int run(void) { return plugin(); }"$'\n'"$text" program "$@"; }

# extension OUT [FLAG or LIBRARY…]: a module of Python's, which takes Py* from whoever opens it
extension() {
  local out=$1 name
  shift
  name=$(basename "$out") name=${name%%.*}
  link "$out" shared "void *PyModule_Create2(void *, int); static void *def[16] = {(void *)1, 0, 0, 0, 0, \"$name\", 0, (void *)-1L};
    void *PyInit_$name(void) { return PyModule_Create2(def, 1013); } $text" "$@"
}

# executable OUT: a script, from stdin
executable() { mkdir -p "$(dirname "$1")"; cat >"$1"; chmod +x "$1"; }

# python OUT STATEMENT…: a script of Python's that tries each (`import x`, `ctypes.CDLL("libx.so")`) and prints what is in the process
python() {
  local out=$1 statement
  shift
  requires python3
  {
    printf '#!/usr/bin/env python3\nimport ctypes, sys\n'
    for statement; do
      printf 'try:\n    %s\n    print("@opened", %s, "\\t")\nexcept (OSError, ImportError) as e:\n    print("@failed", %s, "\\t", e)\n' "$statement" "'$statement'" "'$statement'"
    done
    printf 'for line in sorted({l.split(None, 5)[5].strip() for l in open("/proc/self/maps") if ".so" in l}):\n    print("@object", line)\nprint("@state")\n'
  } | executable "$out"
}

# wrapper OUT PROGRAM [--set VAR VALUE | --prefix VAR SEPARATOR VALUE | --suffix … | --unset VAR | --run COMMAND | --argv0 NAME]…: a script as
# nixpkgs' makeWrapper writes it; binary_wrapper: as makeBinaryWrapper compiles it, with the command in its data
wrapper() {
  local out=$1 program=$2 argv0=''
  shift 2
  {
    echo "#! $(command -v bash) -e"
    while (($#)); do
      case $1 in
        --set) echo "export $2=${3@Q}"; shift 3 ;;
        --set-default) echo "export $2=\${$2-${3@Q}}"; shift 3 ;;
        --unset) echo "unset $2"; shift 2 ;;
        --run) echo "$2"; shift 2 ;;
        --argv0) argv0="-a ${2@Q} "; shift 2 ;;
        --inherit-argv0) argv0='-a "$0" '; shift ;;
        --prefix | --suffix)
          printf '%s=${%s:+%s$%s%s}\n' "$2" "$2" "${3@Q}" "$2" "${3@Q}"
          printf '%s=${%s/%s%s%s/%s}\n' "$2" "$2" "${3@Q}" "${4@Q}" "${3@Q}" "${3@Q}"
          if [[ $1 == --prefix ]]; then echo "$2=${4@Q}\$$2"; else echo "$2=\$$2${4@Q}"; fi
          printf '%s=${%s#%s}\n%s=${%s%%%s}\nexport %s\n' "$2" "$2" "${3@Q}" "$2" "$2" "${3@Q}" "$2"
          shift 4 ;;
        *) cannot "wrapper: $1" ;;
      esac
    done
    echo "exec $argv0\"$program\"  \"\$@\" "
  } | executable "$out"
}
binary_wrapper() {
  local out=$1 program=$2 calls='' command=$2 argv0='' cc own object
  argv0="argv[0] = \"$program\";"
  shift 2
  while (($#)); do
    case $1 in
      --set) calls+="setenv(\"$2\", \"$3\", 1);"; command+=" \\\\\n    $1 ${2@Q} ${3@Q}"; shift 3 ;;
      --set-default) calls+="setenv(\"$2\", \"$3\", 0);"; command+=" \\\\\n    $1 ${2@Q} ${3@Q}"; shift 3 ;;
      --unset) calls+="unsetenv(\"$2\");"; command+=" \\\\\n    $1 ${2@Q}"; shift 2 ;;
      --inherit-argv0) argv0=''; command+=" \\\\\n    $1"; shift ;;
      --argv0) argv0="argv[0] = \"$2\";"; command+=" \\\\\n    $1 ${2@Q}"; shift 2 ;;
      --prefix | --suffix) calls+="join(\"$2\", \"$3\", \"$4\", $([[ $1 == --prefix ]] && echo 1 || echo 0));"; command+=" \\\\\n    $1 ${2@Q} ${3@Q} ${4@Q}"; shift 4 ;;
      *) cannot "binary_wrapper: $1" ;;
    esac
  done
  compiler
  mkdir -p "$(dirname "$out")"
  make_object "#include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    static void join(const char *name, const char *separator, const char *value, int first) {
      const char *old = getenv(name); char *all;
      if (old && asprintf(&all, \"%s%s%s\", first ? value : old, separator, first ? old : value) > 0) setenv(name, all, 1); else setenv(name, value, 1);
    }
    const char *DOCSTRING = \"\\n\\n# made by the command:\\n\\n\\nmakeCWrapper ${command//$'\n'/\\n}\\n\\n\\n\";
    int main(int argc, char **argv) { $calls $argv0 return execv(\"$program\", argv); }" -D_GNU_SOURCE
  "${cc[@]}" -o "$out" "$object" "${own[@]}"
}

# opening OUT SONAME NAME… [-- FLAG or LIBRARY…]: a library that opens the names itself when it is loaded, and passes over what cannot be opened
opening() {
  local out=$1 soname=$2 calls=''
  shift 2
  while (($#)) && [[ $1 != -- ]]; do calls+="dlopen(\"$1\", 2); "; shift; done
  (($# == 0)) || shift
  with "void *dlopen(const char *, int); __attribute__((constructor)) static void opens(void) { $calls} $text" library "$out" "$soname" "$@"
}

# host_driver VERSION STATUS: the host's driver as its installer leaves it: a file with its version, and the link libcuda.so.1
host_driver() {
  driver "/run/opengl-driver/lib/libcuda.so.$1" "$2"
  ln -s "libcuda.so.$1" /run/opengl-driver/lib/libcuda.so.1
}
# compat OUT STATUS CUDA DRIVERS [FLAG or LIBRARY…]: a libcuda.so.1 of a compat package, with NVIDIA's note: its CUDA version, and a
# list of drivers as `[470,535]`
compat() {
  local out=$1 status=$2 json="{\"format\":1,\"CUDA version\":\"$3\",\"driver\":$4,\"device\":[1,2,7,8,9,10,11,12,13,14]}"
  shift 4
  driver "$out" "$status" "$(assembly .note.cuda.fwd_compatibility 'NVIDIA Corporation' 0 "${json//\"/\\\"}")" "$@"
}

# assembly SECTION OWNER TYPE DESCRIPTION [FLAGS]: the path of an assembler text that makes a note
assembly() {
  local path new
  path=$(printf '%s\0' "$@" | sha256sum)
  path=$OBJECTS/${path%% *}.s new=$path.$BASHPID
  cat >"$new" <<END
.section .note.GNU-stack,"",%progbits
.section $1,${5:-\"a\",%note}
.balign 4
.4byte 2f - 1f, 4f - 3f, $3
1: .asciz "$2"
2: .balign 4
3: .ascii "$4"
4: .balign 4
END
  mv "$new" "$path"
  echo "$path"
}
# note [--unended|--not-loaded] [NAME LIST]…: the path of an assembler text with a resolution note (patchelf's .note.nixos.ldcache), for
# a program or library to be linked with: for each needed name, what stands in its list (=FILE or ?DIRECTORY, joined by colons)
note() {
  local description='' end='\0' flags='"a",%note'
  while [[ ${1-} == --* ]]; do
    case $1 in
      --unended) end='.' ;;
      --not-loaded) flags='"",%progbits' ;;
    esac
    shift
  done
  while (($#)); do description+="$1\\0$2\\0"; shift 2; done
  assembly .note.nixos.ldcache NixOS 0x63a86cb6 "$description$end" "$flags"
}

# gpu SM…: the path of an assembler text with machine code for these GPUs (80, 90), for a program or library to be linked with
gpu() {
  local path IFS=-
  path=$OBJECTS/gpu-$*.s
  gpu_code "$@" >"$path.$BASHPID"
  mv "$path.$BASHPID" "$path"
  echo "$path"
}

# writable DIRECTORY: what is written below it is this situation's own; what was there can still be read
writable() {
  local layer=/run/writable$1
  mkdir -p "$layer/upper" "$layer/work" "$1"
  mount -t overlay none -o "lowerdir=$1,upperdir=$layer/upper,workdir=$layer/work" "$1" || cannot "there is no overlay file system"
}
# cached DIRECTORY…: the loader's cache has these directories too, before the host's, after ldconfig made its links in them
cached() {
  requires ldconfig
  ldconfig -n "$@"
  { printf '%s\n' "$@"; echo 'include /etc/ld.so.conf.d/*.conf'; } >/run/ld.so.conf
  [[ ! -d /var/cache/ldconfig ]] || mount -t tmpfs none /var/cache/ldconfig
  ldconfig -X -f /run/ld.so.conf -C /run/ld.so.cache 2>/dev/null
  mount --bind /run/ld.so.cache /etc/ld.so.cache
}
# processor LEVEL: skipped where the processor is of a lower level (x86-64-v3)
processor() { /lib64/ld-linux-x86-64.so.2 --help | grep -q "$1 (supported, searched)" || cannot "this processor is not of level $1"; }

# glibc RELEASE: the C library of a release of Debian in ./glibc; "${with_glibc[@]}" makes a program start with it
glibc() {
  local kept=$OBJECTS/glibc-$1 uri lock
  requires apt-get dpkg-deb flock
  exec {lock}>"$kept.lock" && flock "$lock" # the other workers want it too
  if [[ ! -d $kept ]]; then
    # shellcheck disable=SC2016 # apt-get replaces these
    uri=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 2>/dev/null | awk '$2 == "main" && !/security/ { print $1; exit }')
    [[ -n $uri ]] || cannot "apt has no source with a component called main"
    (
      mkdir -p "$kept.new/lists/partial" "$kept.new/cache/archives/partial" && cd "$kept.new"
      echo "deb $uri $1 main" >sources.list
      : >status # nothing is installed: the release's own version is the candidate
      apt=(timeout 120 apt-get -qq -o "Dir::State::status=$PWD/status" -o "Dir::Etc::SourceList=$PWD/sources.list" -o Dir::Etc::SourceParts=-
        -o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none
        -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::Check-Valid-Until=false)
      "${apt[@]}" update --error-on=any && "${apt[@]}" download libc6:amd64 && dpkg-deb -x libc6_*.deb .
    ) >"$kept.log" 2>&1 || { rm -rf "$kept.new"; cannot "glibc of Debian's $1 cannot be fetched: $(tail -n 1 "$kept.log")"; }
    rm -r "$kept.new"/{lists,cache,status,sources.list} "$kept.new"/*.deb
    mv -T "$kept.new" "$kept"
  fi
  exec {lock}>&-
  mkdir glibc
  cp -a "$(dirname "$(find "$kept" -name libc.so.6)")/." glibc
  with_glibc=("-Wl,--dynamic-linker,$PWD/glibc/ld-linux-x86-64.so.2" "-Wl,-rpath,$PWD/glibc"
    -nodefaultlibs glibc/libc.so.6 glibc/libdl.so.2 -lgcc)
}

# patch FILE OFFSET BYTES: overwrites bytes, given as printf's format
# shellcheck disable=SC2059 # that is what it is for
patch() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
# lfs_pointer: the text that a checkout without Git LFS has in place of a file
lfs_pointer() { printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 4096\n' 0; }

# as_user COMMAND…: what start runs is run by somebody who is not root
as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
users() { "${as_user[@]}" true 2>/dev/null || cannot "there is only one user here"; }

# start COMMAND…: how the situation's process is started; ends the script. VAR=VALUE before it is the process's alone. $asked is the
# file that the commands are asked about (default: the first word that is a file here), $gpu for which GPUs; $because are names of
# which a command has to say something at any severity although the process does not die of them, say two majors of one library; $limit
# is what of the situation no file shows, so that a command may say nothing of it.
start() {
  local word name
  if [[ -z $asked ]]; then
    for word; do [[ -f $word ]] && { asked=$word; break; }; done
  fi
  {
    printf '%s\0' "$asked" "$gpu" "$because" "$limit"
    for name in "${!LD_@}" "${!NIX_@}" "${!PYTHON@}" "${!GLIBC_@}" "${!SITUATION_VARIABLE_@}"; do
      printf '%s=%s\0' "$name" "${!name}"
    done
    printf '%s\0' -- "$@"
  } >"$START"
  exit 0
}
