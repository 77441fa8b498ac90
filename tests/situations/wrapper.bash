# shellcheck shell=bash
# The situations of wrapper: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# VAR=value exec program: the variable is the program's, without an export.
assigned-inline() {
  library lib/libx.so.1 libx.so.1
  program p.bin lib/libx.so.1
  executable bin/p <<SH
#!/bin/sh
LD_LIBRARY_PATH=$PWD/lib exec $PWD/p.bin "\$@"
SH
  start bin/p
}

# --set LD_AUDIT to a library that is no auditing module (it lacks la_version): it is passed over, and the program runs.
audits() {
  library lib/libaudit.so libaudit.so
  library lib/libx.so.1 libx.so.1
  program .p-wrapped lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
  wrapper bin/p "$PWD/.p-wrapped" --set LD_AUDIT "$PWD/lib/libaudit.so"
  start bin/p
}

# Two --prefix of one variable: the second stands before the first, so the copy of the second directory is loaded.
binary-prefix-twice() {
  library first/libx.so.1 libx.so.1
  library second/libx.so.1 libx.so.1 -lm
  program libexec/p first/libx.so.1
  binary_wrapper bin/p "$PWD/libexec/p" --prefix LD_LIBRARY_PATH : "$PWD/first" --prefix LD_LIBRARY_PATH : "$PWD/second"
  start bin/p
}

# What the compiled wrapper starts is not there: it says nothing at all and ends with 255.
binary-program-gone() {
  program .p-wrapped
  binary_wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --set X y
  rm .p-wrapped
  because=.p-wrapped
  start bin/p
}

# makeBinaryWrapper's --set of LD_LIBRARY_PATH to the stubs: only the data of the compiled wrapper says so.
binary-sets-stub() {
  host
  stub stubs/libcuda.so.1
  cuda_program libexec/p stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  binary_wrapper bin/p "$PWD/libexec/p" --set LD_LIBRARY_PATH "$PWD/stubs"
  start bin/p
}

# A compiled wrapper starts a text wrapper, which starts the program: each gives one of two directories that are needed.
binary-wraps-script() {
  library one/libone.so.1 libone.so.1
  library two/libtwo.so.1 libtwo.so.1
  program bin/.p-wrapped_ one/libone.so.1 two/libtwo.so.1
  wrapper bin/.p-wrapped "$PWD/bin/.p-wrapped_" --prefix LD_LIBRARY_PATH : "$PWD/one"
  binary_wrapper bin/p "$PWD/bin/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/two"
  start bin/p
}

# The wrapper sets LD_BIND_NOW=1: a function that nobody calls and nothing defines now ends the start.
binds-now() {
  with 'int absent(void); int g(void) { return absent(); }' library lib/libg.so.1 libg.so.1
  program .p-wrapped lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  wrapper bin/p "$PWD/.p-wrapped" --set LD_BIND_NOW 1
  start bin/p
}

# The script changes to its own directory first, so that a relative entry means another place than the caller's.
changes-directory() {
  library app/lib/libx.so.1 libx.so.1
  library lib/libx.so.1 libx.so.1 -lm
  program app/p.bin app/lib/libx.so.1
  executable app/p <<'SH'
#!/bin/sh
cd "$(dirname "$0")" || exit
LD_LIBRARY_PATH=lib exec ./p.bin "$@"
SH
  start app/p
}

# A start script that does not exec: the program is its child, and dies of a missing library.
child-not-exec() {
  library lib/libx.so.1 libx.so.1
  program p.bin lib/libx.so.1
  rm -r lib
  executable bin/p <<SH
#!/bin/bash
$PWD/p.bin "\$@"
exit \$?
SH
  start bin/p
}

# The script sets the variable only where a directory exists, which it does.
conditional() {
  host
  stub stubs/libcuda.so.1
  cuda_program p.bin stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  executable bin/p <<SH
#!/bin/bash
if [ -d $PWD/stubs ]; then
  export LD_LIBRARY_PATH=$PWD/stubs
fi
exec $PWD/p.bin "\$@"
SH
  start bin/p
}

# The directory with the host's driver also holds a libfoo, which is loaded in place of the program's own.
decides-another-library() {
  driver opt/host/libcuda.so.1 0
  library opt/host/libfoo.so.1 libfoo.so.1 -lm
  library lib/libfoo.so.1 libfoo.so.1
  cuda_program p.bin opt/host/libcuda.so.1 lib/libfoo.so.1 '-Wl,-rpath,$ORIGIN/lib'
  wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/opt/host"
  because=libfoo.so.1
  start bin/p
}

# DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)", as vendors' start scripts have it; their stub directory comes first.
dir-variable() {
  host
  stub app/lib/stubs/libcuda.so.1
  cuda_program app/p.bin app/lib/stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  executable app/p <<'SH'
#!/usr/bin/env bash
DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export LD_LIBRARY_PATH="$DIR/lib/stubs:$LD_LIBRARY_PATH"
"$DIR/p.bin" "$@"
SH
  start app/p
}

# exec "$(dirname "$0")/../libexec/p": the program behind it runs a stub.
dirname-exec() {
  host
  stub libexec/stubs/libcuda.so.1
  cuda_program libexec/p libexec/stubs/libcuda.so.1 '-Wl,-rpath,$ORIGIN/stubs'
  executable bin/p <<'SH'
#!/bin/sh
exec "$(dirname "$0")/../libexec/p" "$@"
SH
  start bin/p
}

# The directory of the libraries is told from the script's own place.
dirname-library-path() {
  library lib/libx.so.1 libx.so.1
  program libexec/p lib/libx.so.1
  executable bin/p <<'SH'
#!/bin/sh
LD_LIBRARY_PATH="$(dirname "$0")/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
exec "$(dirname "$0")/../libexec/p" "$@"
SH
  start bin/p
}

# The same link, and a script that does not resolve it: it looks beside the link and finds nothing to run.
dirname-through-link() {
  program opt/libexec/p
  executable opt/bin/p <<'SH'
#!/bin/bash
exec "$(dirname "$0")/../libexec/p" "$@"
SH
  mkdir bin; ln -s ../opt/bin/p bin/p
  start bin/p
}

# export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:DIR with nothing set before: the empty entry is the working directory, whose copy wins.
empty-entry() {
  library libx.so.1 libx.so.1
  library lib/libx.so.1 libx.so.1 -lm
  program libexec/p lib/libx.so.1
  executable bin/p <<SH
#!/bin/sh
export LD_LIBRARY_PATH=\$LD_LIBRARY_PATH:$PWD/lib
exec $PWD/libexec/p "\$@"
SH
  start bin/p
}

# exec env LD_LIBRARY_PATH=… program
env-command() {
  host
  stub stubs/libcuda.so.1
  cuda_program p.bin stubs/libcuda.so.1
  rm -r stubs
  executable bin/p <<SH
#!/bin/sh
exec env LD_LIBRARY_PATH=/run/opengl-driver/lib $PWD/p.bin "\$@"
SH
  start bin/p
}

# exec -a changes the name that the program sees and not its $ORIGIN, which is the directory of the file that runs.
exec-a-origin() {
  library libexec/lib/libx.so.1 libx.so.1
  library bin/lib/libx.so.1 libx.so.1 -lm
  program libexec/.p-wrapped libexec/lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
  wrapper bin/p "$PWD/libexec/.p-wrapped" --argv0 "$PWD/bin/p"
  start bin/p
}

# The wrapper's directory brings a copy without code for this GPU, in place of the run path's, which has it.
gpu-code-behind() {
  host
  cuda_library old/libg.so.1 libg.so.1 "$(gpu 80)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  cuda_library new/libg.so.1 libg.so.1 "$(gpu 90)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  program p.bin new/libg.so.1 '-Wl,-rpath,$ORIGIN/new'
  wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/old"
  gpu=9.0 because=libg.so.1 start bin/p
}

# The other way round: the wrapper brings the copy that has code for this GPU.
gpu-code-saved() {
  host
  cuda_library old/libg.so.1 libg.so.1 "$(gpu 80)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  cuda_library new/libg.so.1 libg.so.1 "$(gpu 90)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  program p.bin old/libg.so.1 '-Wl,-rpath,$ORIGIN/old'
  wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/new"
  gpu=9.0 start bin/p
}

# The script calls the loader with --library-path, as relocatable bundles do: neither interpreter nor run path count.
loader-by-hand() {
  library lib/libx.so.1 libx.so.1
  program p.bin lib/libx.so.1
  executable bin/p <<SH
#!/bin/sh
exec $(readelf -lW p.bin | sed -n 's/.*interpreter: \(.*\)]/\1/p') --library-path $PWD/lib $PWD/p.bin "\$@"
SH
  start bin/p
}

# A musl program: its loader looks at LD_LIBRARY_PATH before the run path, and the wrapper's copy lacks what the program's has.
musl() {
  on musl library good/libx.so.1 libx.so.1
  on musl library gone/libgone.so.1 libgone.so.1
  on musl library bad/libx.so.1 libx.so.1 gone/libgone.so.1
  rm -r gone
  on musl program p.bin good/libx.so.1 "-Wl,-rpath,$PWD/good"
  wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/bad"
  start bin/p
}

# The variable is set and not exported, so the program never sees it and does not start.
not-exported() {
  library lib/libx.so.1 libx.so.1
  program p.bin lib/libx.so.1
  executable bin/p <<SH
#!/bin/sh
LD_LIBRARY_PATH=$PWD/lib
exec $PWD/p.bin "\$@"
SH
  start bin/p
}

# The wrapper's directory holds an older copy, which lacks a version that the program needs; its own run path has the right one.
older-copy() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_w(void); int run(void) { return f_w(); }' program p.bin new/libv.so.1 '-Wl,-rpath,$ORIGIN/new'
  wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/old"
  start bin/p
}

# A plugin that the program opens by its bare name is found in the wrapper's directory alone.
opens-plugin() {
  library plugins/libplug.so libplug.so
  opener .p-wrapped libplug.so
  binary_wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/plugins"
  start bin/p
}

# The loader expands $ORIGIN in LD_LIBRARY_PATH too: it is the program's directory.
origin-in-variable() {
  library libexec/lib/libx.so.1 libx.so.1
  program libexec/p libexec/lib/libx.so.1
  wrapper bin/p "$PWD/libexec/p" --set LD_LIBRARY_PATH '$ORIGIN/lib'
  start bin/p
}

# --prefix puts the driver link before what the user has set: his stub directory does no harm.
prefix-beats-user() {
  host
  stub stubs/libcuda.so.1
  cuda_program .p-wrapped stubs/libcuda.so.1
  wrapper bin/p "$PWD/.p-wrapped" --prefix LD_LIBRARY_PATH : /run/opengl-driver/lib
  LD_LIBRARY_PATH=$PWD/stubs start bin/p
}

# makeBinaryWrapper's compiled wrapper gives the library's directory: the wrapper is what is started, and it needs nothing itself.
prefix-binary() {
  library lib/libx.so.1 libx.so.1
  program .p-wrapped lib/libx.so.1
  binary_wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/lib"
  start bin/p
}

# The program has no run path, and works all the same: makeWrapper's --prefix gives the driver link.
prefix-driver() {
  host
  stub stubs/libcuda.so.1
  cuda_program .p-wrapped stubs/libcuda.so.1
  rm -r stubs
  wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : /run/opengl-driver/lib
  start bin/p
}

# A library to be preloaded that is not there is passed over with a message.
preloads-absent() {
  library lib/libx.so.1 libx.so.1
  program .p-wrapped lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
  wrapper bin/p "$PWD/.p-wrapped" --set LD_PRELOAD "$PWD/lib/libgone.so"
  start bin/p
}

# The library to be preloaded is there, and what it needs is not: that ends the start.
preloads-incomplete() {
  library gone/libgone.so.1 libgone.so.1
  library lib/libpre.so libpre.so gone/libgone.so.1
  rm -r gone
  program .p-wrapped
  binary_wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --prefix LD_PRELOAD : "$PWD/lib/libpre.so"
  start bin/p
}

# --set LD_PRELOAD: the preloaded stub answers to the name libcuda.so.1, so the driver link is never looked at.
preloads-stub() {
  host
  stub stubs/libcuda.so.1
  cuda_program .p-wrapped stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  wrapper bin/p "$PWD/.p-wrapped" --set LD_PRELOAD "$PWD/stubs/libcuda.so.1"
  start bin/p
}

# What the wrapper starts is not there.
program-gone() {
  program .p-wrapped
  wrapper bin/p "$PWD/.p-wrapped" --set LD_LIBRARY_PATH "$PWD/lib"
  rm .p-wrapped
  start bin/p
}

# readlink -f "$0", and the script is started through a link from elsewhere: its place is where the file is.
readlink-through-link() {
  library opt/lib/libx.so.1 libx.so.1
  program opt/libexec/p opt/lib/libx.so.1
  executable opt/bin/p <<'SH'
#!/bin/bash
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH=$here/../lib
exec "$here/../libexec/p" "$@"
SH
  mkdir bin; ln -s ../opt/bin/p bin/p
  start bin/p
}

# LD_LIBRARY_PATH=lib means the working directory's lib, from where the wrapper happens to be started.
relative-library-path() {
  library lib/libx.so.1 libx.so.1
  program p.bin lib/libx.so.1
  wrapper bin/p "$PWD/p.bin" --set LD_LIBRARY_PATH lib
  start bin/p
}

# In LD_LIBRARY_PATH, unlike in a run path, a semicolon separates as well.
semicolons() {
  library one/libone.so.1 libone.so.1
  library two/libtwo.so.1 libtwo.so.1
  program p.bin one/libone.so.1 two/libtwo.so.1
  wrapper bin/p "$PWD/p.bin" --set LD_LIBRARY_PATH "$PWD/one;$PWD/two"
  start bin/p
}

# --set-default where nothing is set: the program works by it alone.
set-default-alone() {
  library good/libx.so.1 libx.so.1
  program .p-wrapped good/libx.so.1
  binary_wrapper bin/p "$PWD/.p-wrapped" --set-default LD_LIBRARY_PATH "$PWD/good"
  start bin/p
}

# --set-default yields to what the user has set, and that leads to a copy that needs what is not there.
set-default() {
  library gone/libgone.so.1 libgone.so.1
  library good/libx.so.1 libx.so.1
  library bad/libx.so.1 libx.so.1 gone/libgone.so.1
  rm -r gone
  program .p-wrapped good/libx.so.1
  binary_wrapper bin/p "$PWD/.p-wrapped" --set-default LD_LIBRARY_PATH "$PWD/good"
  LD_LIBRARY_PATH=$PWD/bad start bin/p
}

# The wrapper's directory is what finds the library, but the program is set-user-ID: the loader ignores the variable.
set-user-id() {
  users
  library lib/libx.so.1 libx.so.1
  program p.bin lib/libx.so.1
  chmod u+s p.bin
  wrapper bin/p "$PWD/p.bin" --set LD_LIBRARY_PATH "$PWD/lib"
  asked=bin/p start "${as_user[@]}" bin/p
}

# makeWrapper's --set LD_LIBRARY_PATH leads past the driver link to a stub, which the program alone would never load.
sets-stub() {
  host
  stub stubs/libcuda.so.1
  cuda_program .p-wrapped stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  wrapper bin/p "$PWD/.p-wrapped" --set LD_LIBRARY_PATH "$PWD/stubs" --inherit-argv0
  start bin/p
}

# --suffix puts the driver link behind what the user has set, and that is where the stub is.
suffix-driver() {
  host
  stub stubs/libcuda.so.1
  cuda_program .p-wrapped stubs/libcuda.so.1
  wrapper bin/p "$PWD/.p-wrapped" --suffix LD_LIBRARY_PATH : /run/opengl-driver/lib
  LD_LIBRARY_PATH=$PWD/stubs start bin/p
}

# Two --suffix of one variable: the first directory stays first.
suffix-twice() {
  library first/libx.so.1 libx.so.1
  library second/libx.so.1 libx.so.1 -lm
  program libexec/p first/libx.so.1
  wrapper bin/p "$PWD/libexec/p" --suffix LD_LIBRARY_PATH : "$PWD/first" --suffix LD_LIBRARY_PATH : "$PWD/second"
  start bin/p
}

# --unset LD_LIBRARY_PATH: the user's stub directory does not reach the program.
variable-unset() {
  host
  stub stubs/libcuda.so.1
  cuda_program .p-wrapped stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  wrapper bin/p "$PWD/.p-wrapped" --unset LD_LIBRARY_PATH
  LD_LIBRARY_PATH=$PWD/stubs start bin/p
}

# wrapProgram was called twice: the inner wrapper runs last, so its directory stands first.
wraps-wrapper() {
  library outer/libx.so.1 libx.so.1
  library inner/libx.so.1 libx.so.1 -lm
  program bin/.p-wrapped_ outer/libx.so.1
  wrapper bin/.p-wrapped "$PWD/bin/.p-wrapped_" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/inner"
  wrapper bin/p "$PWD/bin/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/outer"
  start bin/p
}
