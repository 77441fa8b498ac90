# shellcheck shell=bash
# The situations of note: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# Note and run path say the same, as patchelf leaves a file: nothing is wrong with this one but that nobody reads the note.
agrees() {
  library lib/libx.so.1 libx.so.1
  library lib/liby.so.1 liby.so.1
  program p lib/libx.so.1 lib/liby.so.1 "$(note libx.so.1 "=$PWD/lib/libx.so.1" liby.so.1 "=$PWD/lib/liby.so.1")" -Wl,-rpath,"$PWD/lib"
  start ./p
}

# The note, written on a machine with a GPU, names the driver's file itself; the host's driver is gone since, and the cache has a stub.
driver-link-by-path() {
  writable /usr/local
  stub /usr/local/cuda/lib64/stubs/libcuda.so.1
  cached /usr/local/cuda/lib64/stubs
  cuda_program p /usr/local/cuda/lib64/stubs/libcuda.so.1 "$(note libcuda.so.1 =/run/opengl-driver/lib/libcuda.so.1)" -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# Note and DT_RPATH: the note's reader looks at it after DT_RPATH and LD_LIBRARY_PATH; here the DT_RPATH finds all.
in-rpath-program() {
  library a/libx.so.1 libx.so.1
  library b/libx.so.1 libx.so.1
  program p a/libx.so.1 "$(note libx.so.1 "=$PWD/b/libx.so.1")" -Wl,--disable-new-dtags,-rpath,'$ORIGIN/a'
  start ./p
}

# LD_LIBRARY_PATH comes before note and run path alike: its copy is taken.
ld-library-path() {
  library env/libx.so.1 libx.so.1
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 "$(note libx.so.1 "=$PWD/lib/libx.so.1")" -Wl,-rpath,'$ORIGIN/lib'
  LD_LIBRARY_PATH=$PWD/env start ./p
}

# A musl program with a note: musl reads none; its run path lacks the library.
musl() {
  on musl library lib/libx.so.1 libx.so.1
  on musl program p lib/libx.so.1 "$(note libx.so.1 "=$PWD/lib/libx.so.1")" -Wl,-rpath,'$ORIGIN/other'
  start ./p
}

# The other way round: the note is right, the run path has the stub first. Who believes the note is wrong here.
names-the-driver-run-path-the-stub() {
  host
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 "$(note libcuda.so.1 '?/run/opengl-driver/lib')" -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
  start ./p
}

# The note was written while the driver link was not there, and names the stub; an ordinary glibc reads the run path only.
names-the-stub() {
  host
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 "$(note libcuda.so.1 "=$PWD/lib/stubs/libcuda.so.1")" -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# The note does not end in two zero bytes, which even a loader that knows it takes for none.
not-terminated() {
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 "$(note --unended libx.so.1 "=$PWD/other/libx.so.1")" -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The note is a library's, for what that library needs; the program's run path is not its own.
of-a-library() {
  library lib/libdep.so.1 libdep.so.1
  library lib/libx.so.1 libx.so.1 lib/libdep.so.1 "$(note libdep.so.1 "=$PWD/lib/libdep.so.1")"
  program p lib/libx.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
  start ./p
}

# A plugin's note names its dependency; the plugin was moved with its directory, its $ORIGIN run path followed, the note did not.
of-a-plugin() {
  library plugins/lib/libdep.so.1 libdep.so.1
  library plugins/plug.so '' plugins/lib/libdep.so.1 "$(note libdep.so.1 "=$PWD/before/lib/libdep.so.1")" -Wl,-rpath,'$ORIGIN/lib'
  opener p ./plugins/plug.so
  start ./p
}

# The note has one name twice, first the driver link, then the stubs; the run path has them the other way round.
one-name-twice() {
  host
  stub lib/stubs/libcuda.so.1
  cuda_program p lib/stubs/libcuda.so.1 "$(note libcuda.so.1 '?/run/opengl-driver/lib' libcuda.so.1 "?$PWD/lib/stubs")" -Wl,-rpath,"$PWD/lib/stubs:/run/opengl-driver/lib"
  start ./p
}

# A name that dlopen gets stands in the note; the run path's first directory has another copy.
opened-name() {
  library a/libx.so.1 libx.so.1
  library b/libx.so.1 libx.so.1
  opener p libx.so.1 -- "$(note libx.so.1 "=$PWD/b/libx.so.1")" -Wl,-rpath,'$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# Note and run path lead to different copies of one library; they differ in what they need, and the run path's copy lacks it.
other-copy() {
  library gone/libgone.so.1 libgone.so.1
  library a/libx.so.1 libx.so.1
  library b/libx.so.1 libx.so.1 gone/libgone.so.1
  rm gone/libgone.so.1
  program p a/libx.so.1 "$(note libx.so.1 "=$PWD/a/libx.so.1")" -Wl,-rpath,'$ORIGIN/b:$ORIGIN/a'
  start ./p
}

# The note leads to a private libcuda past the driver link, which stands first in the run path.
past-the-driver-link() {
  host
  driver other/libcuda.so.1 3
  cuda_program p other/libcuda.so.1 "$(note libcuda.so.1 "=$PWD/other/libcuda.so.1")" -Wl,-rpath,"/run/opengl-driver/lib:$PWD/other"
  start ./p
}

# Note and run path both prefer the private libcuda to the driver link behind it: the process takes it, whatever reads the note.
private-driver-first() {
  host
  driver other/libcuda.so.1 3
  cuda_program p other/libcuda.so.1 "$(note libcuda.so.1 "=$PWD/other/libcuda.so.1")" -Wl,-rpath,"$PWD/other:/run/opengl-driver/lib"
  start ./p
}

# The note's section is there, but no PT_NOTE covers it (not allocated): no loader sees it.
section-only() {
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 "$(note --not-loaded libx.so.1 "=$PWD/other/libx.so.1")" -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# The note leads to a file of an older version that is gone; the run path was changed since and is right.
stale-path() {
  library new/libx.so.1 libx.so.1
  program p new/libx.so.1 "$(note libx.so.1 "=$PWD/old/libx.so.1")" -Wl,-rpath,'$ORIGIN/new'
  start ./p
}

# Two notes in one file, with different answers, as a link of two annotated objects would leave them.
two-notes() {
  library a/libx.so.1 libx.so.1
  library b/libx.so.1 libx.so.1
  program p a/libx.so.1 "$(note libx.so.1 "=$PWD/a/libx.so.1")" "$(note libx.so.1 "=$PWD/b/libx.so.1")" -Wl,-rpath,"$PWD/b:$PWD/a"
  start ./p
}

# All that says where the library is, is the note: the ordinary loader finds nothing.
without-run-path() {
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 "$(note libx.so.1 "=$PWD/lib/libx.so.1")"
  start ./p
}

# The note asks for the working directory (?.), which was the library's when it was written; there is no run path, and it is started from elsewhere.
working-directory() {
  library lib/libx.so.1 libx.so.1
  program lib/p lib/libx.so.1 "$(note libx.so.1 '?.')"
  start ./lib/p
}

# The note names a 32-bit library; the run path has the right one.
wrong-class() {
  on i386 library l32/libx.so.1 libx.so.1
  library l64/libx.so.1 libx.so.1
  program p l64/libx.so.1 "$(note libx.so.1 "=$PWD/l32/libx.so.1:=$PWD/l64/libx.so.1")" -Wl,-rpath,'$ORIGIN/l32'
  start ./p
}
