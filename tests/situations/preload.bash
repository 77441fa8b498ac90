# shellcheck shell=bash
# The situations of preload: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# LD_PRELOAD of a directory is passed over with a message.
a-directory() {
  mkdir pre
  program p
  LD_PRELOAD=$PWD/pre start ./p
}

# LD_PRELOAD of a position-independent program is passed over: the start goes on without it.
a-program() {
  program pre/tool
  program p
  LD_PRELOAD=$PWD/pre/tool start ./p
}

# LD_PRELOAD of a stub: it answers to libcuda.so.1, so the driver link in the run path is never searched.
a-stub() {
  host
  stub stubs/libcuda.so.1
  cuda_program p stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  LD_PRELOAD=$PWD/stubs/libcuda.so.1 start ./p
}

# LD_PRELOAD of what is not there is passed over with a message.
absent() {
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
  LD_PRELOAD=$PWD/lib/libgone.so start ./p
}

# LD_AUDIT of what is not there is passed over with a message.
audit-absent() {
  program p
  LD_AUDIT=$PWD/lib/libgone.so start ./p
}

# The program names its auditing module itself (DT_AUDIT), and it is not there: passed over.
audit-by-program() {
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib' "-Wl,--audit,$PWD/lib/libgone.so"
  start ./p
}

# LD_AUDIT of a module that works: it has a namespace of its own, and its copy of libx is not the program's.
audit-good() {
  library a/libx.so.1 libx.so.1
  library b/libx.so.1 libx.so.1 -lm
  with 'unsigned la_version(unsigned v) { return v; }' library lib/libaudit.so libaudit.so b/libx.so.1 '-Wl,-rpath,$ORIGIN/../b'
  program p a/libx.so.1 '-Wl,-rpath,$ORIGIN/a'
  LD_AUDIT=$PWD/lib/libaudit.so start ./p
}

# LD_AUDIT of a module that needs what is not there: unlike a preloaded library, it is passed over.
audit-incomplete() {
  library gone/libgone.so.1 libgone.so.1
  with 'unsigned la_version(unsigned v) { return v; }' library lib/libaudit.so libaudit.so gone/libgone.so.1
  rm -r gone
  program p
  LD_AUDIT=$PWD/lib/libaudit.so start ./p
}

# A bare name in LD_PRELOAD is searched in LD_LIBRARY_PATH too, before the DT_RUNPATH.
bare-name-by-library-path() {
  library a/libpre.so libpre.so
  library b/libpre.so libpre.so -lm
  program p '-Wl,-rpath,$ORIGIN/a'
  LD_PRELOAD=libpre.so LD_LIBRARY_PATH=$PWD/b start ./p
}

# A bare name in LD_PRELOAD that nothing has is passed over.
bare-name-not-found() {
  library lib/libpre.so libpre.so
  program p
  LD_PRELOAD=libpre.so start ./p
}

# A bare name in LD_PRELOAD is searched as the program's own needs are: its DT_RUNPATH has it.
bare-name() {
  library lib/libpre.so libpre.so
  program p '-Wl,-rpath,$ORIGIN/lib'
  LD_PRELOAD=libpre.so start ./p
}

# The preloaded library leads libcuda.so.1 to a stub, but the program needs it too, and its own needs are searched first: the driver.
brings-stub() {
  host
  stub stubs/libcuda.so.1
  library pre/libpre.so libpre.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
  cuda_program p stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  LD_PRELOAD=$PWD/pre/libpre.so start ./p
}

# LD_PRELOAD of a library that is cut off within its header is passed over; its name is not taken.
cut-off() {
  library lib/libx.so.1 libx.so.1
  mkdir pre; head -c 40 lib/libx.so.1 >pre/libx.so.1
  program p lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
  LD_PRELOAD=$PWD/pre/libx.so.1 start ./p
}

# LD_PRELOAD of a file that is no library is passed over with a message.
damaged() {
  mkdir pre; head -c 200 /dev/zero | tr '\0' x >pre/libpre.so
  program p
  LD_PRELOAD=$PWD/pre/libpre.so start ./p
}

# A library calls cuMemCreate at once and needs no libcuda.so.1; the preloaded driver defines it.
defines-what-is-missing() {
  with 'int cuMemCreate(void) { return 0; }' driver /run/opengl-driver/lib/libcuda.so.1 0
  with 'int cuMemCreate(void); int g(void) { return cuMemCreate(); }' library lib/libg.so.1 libg.so.1 -Wl,-z,now
  program p lib/libg.so.1 '-Wl,-rpath,$ORIGIN/lib'
  LD_PRELOAD=/run/opengl-driver/lib/libcuda.so.1 start ./p
}

# The program's DT_RPATH does serve the preloaded library.
dependency-by-dt-rpath() {
  library lib/libdep.so.1 libdep.so.1
  library pre/libpre.so libpre.so lib/libdep.so.1
  program p lib/libdep.so.1 -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/lib'
  LD_PRELOAD=$PWD/pre/libpre.so start ./p
}

# The preloaded library's need is not found by its own run path; the program needs the same one, is asked first, and has it.
dependency-by-program() {
  library lib/libdep.so.1 libdep.so.1
  library pre/libpre.so libpre.so lib/libdep.so.1
  program p lib/libdep.so.1 '-Wl,-rpath,$ORIGIN/lib'
  LD_PRELOAD=$PWD/pre/libpre.so start ./p
}

# What the preloaded library needs is needed by a library of the program as well, which comes later and finds it: too late.
dependency-of-a-dependency() {
  library lib/libdep.so.1 libdep.so.1
  library lib/libuse.so.1 libuse.so.1 lib/libdep.so.1 '-Wl,-rpath,$ORIGIN'
  library pre/libpre.so libpre.so lib/libdep.so.1
  program p lib/libuse.so.1 '-Wl,-rpath,$ORIGIN/lib'
  LD_PRELOAD=$PWD/pre/libpre.so start ./p
}

# LD_PRELOAD of the host's driver saves a program whose run path leads to a stub.
driver-for-stub() {
  host
  stub stubs/libcuda.so.1
  cuda_program p stubs/libcuda.so.1 '-Wl,-rpath,$ORIGIN/stubs'
  LD_PRELOAD=/run/opengl-driver/lib/libcuda.so.1 start ./p
}

# A preloaded copy, matched by its soname, has no code for this GPU; the one in the run path has.
gpu-code() {
  host
  cuda_library old/libg.so.1 libg.so.1 "$(gpu 80)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  cuda_library new/libg.so.1 libg.so.1 "$(gpu 90)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  program p new/libg.so.1 '-Wl,-rpath,$ORIGIN/new'
  gpu=9.0 because=libg.so.1 LD_PRELOAD=$PWD/old/libg.so.1 start ./p
}

# LD_PRELOAD of a library that needs what is not there: the program does not start.
incomplete() {
  library gone/libgone.so.1 libgone.so.1
  library lib/libpre.so libpre.so gone/libgone.so.1
  rm -r gone
  program p
  LD_PRELOAD=$PWD/lib/libpre.so start ./p
}

# musl passes over an absent library without a word.
musl-absent() {
  on musl library lib/libx.so.1 libx.so.1
  on musl program p lib/libx.so.1 "-Wl,-rpath,$PWD/lib"
  LD_PRELOAD=$PWD/lib/libgone.so start ./p
}

# musl: the preloaded library needs what is not there, which ends the start here as well.
musl-incomplete() {
  on musl library gone/libgone.so.1 libgone.so.1
  on musl library lib/libpre.so libpre.so gone/libgone.so.1
  rm -r gone
  on musl program p
  LD_PRELOAD=$PWD/lib/libpre.so start ./p
}

# A preloaded file without a soname answers to no name but its path's: the program still lacks libx.so.1.
no-soname() {
  library pre/libx.so.1 ''
  library gone/libx.so.1 libx.so.1
  program p gone/libx.so.1 '-Wl,-rpath,$ORIGIN/gone'
  rm -r gone
  LD_PRELOAD=$PWD/pre/libx.so.1 start ./p
}

# The preloaded copy lacks a version that the program needs, which the copy in its run path has.
older-copy() {
  versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
  with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
  with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 '-Wl,-rpath,$ORIGIN/new'
  LD_PRELOAD=$PWD/old/libv.so.1 start ./p
}

# The loader expands $ORIGIN in LD_PRELOAD by the program's directory.
origin() {
  library bin/pre/libpre.so libpre.so
  program bin/p
  LD_PRELOAD='$ORIGIN/pre/libpre.so' start bin/p
}

# LD_PRELOAD of a library for i386 in a 64-bit program is passed over with a message.
other-class() {
  on i386 library pre/libpre.so libpre.so
  program p
  LD_PRELOAD=$PWD/pre/libpre.so start ./p
}

# Program and preloaded library both need libx: breadth first, the program's own needs come before those of a preloaded one.
program-first() {
  library a/libx.so.1 libx.so.1
  library b/libx.so.1 libx.so.1 -lm
  library pre/libpre.so libpre.so b/libx.so.1 '-Wl,-rpath,$ORIGIN/../b'
  program p a/libx.so.1 '-Wl,-rpath,$ORIGIN/a'
  LD_PRELOAD=$PWD/pre/libpre.so start ./p
}

# A relative path in LD_PRELOAD is the working directory's.
relative() {
  library lib/libpre.so libpre.so
  program bin/p
  LD_PRELOAD=lib/libpre.so start bin/p
}

# Nothing in the program's run path has libx.so.1; a preloaded file with that soname, under another name, does for it.
satisfies() {
  library pre/x-replacement.so libx.so.1
  library gone/libx.so.1 libx.so.1
  program p gone/libx.so.1 '-Wl,-rpath,$ORIGIN/gone'
  rm -r gone
  LD_PRELOAD=$PWD/pre/x-replacement.so start ./p
}

# A plugin needs libdep.so, which its run path has not; a preloaded library brought it.
serves-plugin() {
  library x/libdep.so libdep.so
  library plug/libplug.so libplug.so x/libdep.so
  opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
  LD_PRELOAD=$PWD/x/libdep.so start ./p
}

# A set-user-ID program takes no library by a path from LD_PRELOAD: the run path's driver is used, not the stub.
set-user-id() {
  users
  host
  stub stubs/libcuda.so.1
  cuda_program p stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
  chmod u+s p
  asked=./p LD_PRELOAD=$PWD/stubs/libcuda.so.1 start "${as_user[@]}" ./p
}

# Two, separated by a colon and by a space; the first is absent, the second is there.
two() {
  library lib/libpre.so libpre.so
  library lib/libmore.so libmore.so
  program p
  LD_PRELOAD="$PWD/lib/libgone.so:$PWD/lib/libpre.so $PWD/lib/libmore.so" start ./p
}

# The preloaded library refers to data that nothing defines: the start ends.
unbound-data() {
  with 'extern int absent; int g(void) { return absent; }' library lib/libpre.so libpre.so
  program p
  LD_PRELOAD=$PWD/lib/libpre.so start ./p
}

# The preloaded library calls a function that nothing defines, late bound and never called: the program runs.
unbound-function() {
  with 'int absent(void); int g(void) { return absent(); }' library lib/libpre.so libpre.so
  program p
  LD_PRELOAD=$PWD/lib/libpre.so start ./p
}
