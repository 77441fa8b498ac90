# shellcheck shell=bash
# The situations of hard-links: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# One program under names in bin and in sbin/deep, with a relative run path that fits the first only.
busybox-style() {
  library lib/libbox.so.1 libbox.so.1
  program bin/box lib/libbox.so.1 -Wl,-rpath,'$ORIGIN/../lib'
  mkdir -p sbin/deep && ln bin/box sbin/deep/box
  start ./sbin/deep/box
}

# Two copies (two inodes) of one library opened by path: two objects in the process, and the second lacks its dependency.
copies-not-links() {
  library one/dep/libd.so.1 libd.so.1
  library one/liba.so liba.so one/dep/libd.so.1 -Wl,-rpath,'$ORIGIN/dep'
  mkdir two && cp one/liba.so two/liba.so
  opener p ./two/liba.so ./one/liba.so ./two/liba.so
  start ./p
}

# The driver's libcuda.so and libcuda.so.1 are hard links, not symbolic ones; a program opens both names.
driver-two-names() {
  driver /run/opengl-driver/lib/libcuda.so.1 0
  ln /run/opengl-driver/lib/libcuda.so.1 /run/opengl-driver/lib/libcuda.so
  opener p --entry cuInit libcuda.so libcuda.so.1 -- -Wl,-rpath,/run/opengl-driver/lib
  start ./p
}

# musl: one program under two names, started under the one that has no library beside it.
musl-program() {
  on musl library v1/lib/libk.so.1 libk.so.1
  on musl program v1/p v1/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
  mkdir v2 && ln v1/p v2/p
  start ./v2/p
}

# musl: two needed names are one inode in two directories; the second's own run path never counts.
musl-same-inode() {
  on musl library a/libd.so.1 libd.so.1
  on musl library a/libx.so.1 '' a/libd.so.1 -Wl,-rpath,'$ORIGIN'
  mkdir b && ln a/libx.so.1 b/liby.so.1
  on musl program p -La -Lb -l:libx.so.1 -l:liby.so.1 -Wl,-rpath,'$ORIGIN/a:$ORIGIN/b'
  start ./p
}

# The plugin's file is the inode of a library that the program has: opening it loads nothing, its own $ORIGIN never counts.
plugin-is-a-needed-library() {
  library lib/libd.so.1 libd.so.1
  library lib/libx.so.1 libx.so.1 lib/libd.so.1 -Wl,-rpath,'$ORIGIN'
  opener p ./plugins/x.so -- lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
  mkdir plugins && ln lib/libx.so.1 plugins/x.so
  start ./p
}

# LD_PRELOAD names the second name of a library that the program needs; their sonames do not matter, the inode is the same.
preloaded-under-another-name() {
  library lib/libx.so.1 libx.so.1
  mkdir hooks && ln lib/libx.so.1 hooks/hook.so
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
  LD_PRELOAD=$PWD/hooks/hook.so start ./p
}

# The same without a soname, and the program's run path does not hold it: the preloaded inode does not answer to the needed name.
preloaded-without-soname() {
  library lib/libx.so.1 ''
  mkdir hooks && ln lib/libx.so.1 hooks/hook.so
  program p -Llib -l:libx.so.1
  LD_PRELOAD=$PWD/hooks/hook.so start ./p
}

# A link leads to the second name of a program, beside which the library is missing.
program-behind-symlink-to-hard-link() {
  library v1/lib/libk.so.1 libk.so.1
  program v1/p v1/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
  mkdir v2 bin && ln v1/p v2/p && ln -s ../v2/p bin/p
  start ./bin/p
}

# The program is started through a link: its $ORIGIN is that of the file it leads to.
program-behind-symlink() {
  library libexec/lib/libk.so.1 libk.so.1
  program libexec/p libexec/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
  mkdir bin && ln -s ../libexec/p bin/p
  start ./bin/p
}

# The same pair, started under the name that works.
program-in-two-places-first() {
  library v1/lib/libk.so.1 libk.so.1
  program v1/p v1/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
  mkdir v2 && ln v1/p v2/p
  start ./v1/p
}

# One program under two names: beside the first is the library that $ORIGIN finds, beside the second is none.
program-in-two-places() {
  library v1/lib/libk.so.1 libk.so.1
  program v1/p v1/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
  mkdir v2 && ln v1/p v2/p
  start ./v2/p
}

# Both names start, with different libraries: beside the second name is another libk, which needs something that is gone.
program-other-library() {
  library gone/libgone.so.1 libgone.so.1
  library a/lib/libk.so.1 libk.so.1
  library b/lib/libk.so.1 libk.so.1 gone/libgone.so.1
  rm gone/libgone.so.1
  program a/p a/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
  ln a/p b/p
  start ./b/p
}

# The file was renamed after linking; its soname still has the old name, the program needs the old name by a link.
renamed-after-linking() {
  library lib/libold.so.1 libold.so.1
  library plug.so '' lib/libold.so.1
  opener p ./lib/libnew.so.1 ./plug.so
  mv lib/libold.so.1 lib/libnew.so.1
  start ./p
}

# The plugin is opened before the renamed library: it fails, and works when it is opened again afterwards.
renamed-opened-late() {
  library lib/libold.so.1 libold.so.1
  library plug.so '' lib/libold.so.1
  opener p ./plug.so ./lib/libnew.so.1 ./plug.so
  mv lib/libold.so.1 lib/libnew.so.1
  start ./p
}

# The same files in the other order: liby, which needs libx.so.2, is needed by the first library; by then nothing answers to it.
soname-differs-too-late() {
  library lib/libx.so.2 libx.so.2
  library lib/liby.so.1 liby.so.1 lib/libx.so.2
  library lib/libx.so.1 libx.so.1
  opener p ./lib/liby.so.1 ./lib/libx.so.1 ./lib/liby.so.1
  mv lib/libx.so.2 lib/libx.so.1
  start ./p
}

# The file libx.so.1 has the soname libx.so.2; another library needs libx.so.2, a file that does not exist: the soname answers.
soname-differs() {
  library lib/libx.so.2 libx.so.2
  library lib/liby.so.1 liby.so.1 lib/libx.so.2
  library lib/libx.so.1 libx.so.1
  program p lib/libx.so.1 lib/liby.so.1 -Wl,-rpath,'$ORIGIN/lib'
  mv lib/libx.so.2 lib/libx.so.1
  start ./p
}

# liba.so.1 and libb.so.1 are one inode with the soname liba.so.1, in two directories; the program needs libb.so.1 by the second.
soname-of-the-other-name() {
  library x/liba.so.1 liba.so.1
  library x/libb.so.1 libb.so.1
  program p x/liba.so.1 x/libb.so.1 -Wl,-rpath,'$ORIGIN/x:$ORIGIN/y'
  rm x/libb.so.1 && mkdir y && ln x/liba.so.1 y/libb.so.1
  start ./p
}

# Two store paths share a library's inode (nix-store --optimise); each has its own dependency beside it, the second an unusable one.
store-optimised() {
  on i386 library b-1.0/lib/libd.so.1 libd.so.1
  library a-1.0/lib/libd.so.1 libd.so.1
  library a-1.0/lib/libx.so.1 libx.so.1 a-1.0/lib/libd.so.1 -Wl,-rpath,'$ORIGIN'
  ln a-1.0/lib/libx.so.1 b-1.0/lib/libx.so.1
  mkdir .links && ln a-1.0/lib/libx.so.1 .links/0pz2q
  program p a-1.0/lib/libx.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/b-1.0/lib:$ORIGIN/a-1.0/lib'
  start ./p
}

# The stub was hard-linked into an ordinary library directory under the driver's name: no link to follow tells where it comes from.
stub-linked-as-driver() {
  host
  stub cuda/lib64/stubs/libcuda.so
  mkdir lib && ln cuda/lib64/stubs/libcuda.so lib/libcuda.so.1
  cuda_program p lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# The run path's directory is a link; the library's own $ORIGIN/../dep begins at the link's name but ".." leads from its target.
symlinked-directory() {
  library store/x/dep/libd.so.1 libd.so.1
  library store/x/lib/libx.so.1 libx.so.1 store/x/dep/libd.so.1 -Wl,-rpath,'$ORIGIN/../dep'
  ln -s store/x/lib lib
  program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# A link to the library's file: $ORIGIN is the link's directory, not the target's, so the neighbour is not found.
symlinked-file() {
  library store/libd.so.1 libd.so.1
  library store/libx.so.1 libx.so.1 store/libd.so.1 -Wl,-rpath,'$ORIGIN'
  mkdir lib && ln -s ../store/libx.so.1 lib/libx.so.1
  program p lib/libx.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
  start ./p
}

# A program needs two names that are one inode without a soname: one object is loaded, it answers to both.
two-names-no-soname() {
  library lib/liba.so.1 ''
  ln lib/liba.so.1 lib/libb.so.1
  program p -Llib -l:liba.so.1 -l:libb.so.1 -Wl,-rpath,'$ORIGIN/lib'
  start ./p
}

# A process opens the linked library under the name that lacks its dependency, fails, and then under the one that has it.
uv-cache-both-opened() {
  library one/blas/lib/libopenblas.so.0 libopenblas.so.0
  library one/scipy/lib/libext.so libext.so one/blas/lib/libopenblas.so.0 -Wl,-rpath,'$ORIGIN/../../blas/lib'
  mkdir -p two/scipy/lib && ln one/scipy/lib/libext.so two/scipy/lib/libext.so
  opener p ./two/scipy/lib/libext.so ./one/scipy/lib/libext.so
  start ./p
}

# The other order: the inode is there already, so the second name opens too, although its own directory lacks the dependency.
uv-cache-good-first() {
  library one/blas/lib/libopenblas.so.0 libopenblas.so.0
  library one/scipy/lib/libext.so libext.so one/blas/lib/libopenblas.so.0 -Wl,-rpath,'$ORIGIN/../../blas/lib'
  mkdir -p two/scipy/lib && ln one/scipy/lib/libext.so two/scipy/lib/libext.so
  opener p ./one/scipy/lib/libext.so ./two/scipy/lib/libext.so
  start ./p
}

# uv links a wheel's files from its cache into each environment: the second one lacks the wheel that it needs.
uv-cache() {
  library one/blas/lib/libopenblas.so.0 libopenblas.so.0
  library one/scipy/lib/libext.so libext.so one/blas/lib/libopenblas.so.0 -Wl,-rpath,'$ORIGIN/../../blas/lib'
  mkdir -p two/scipy/lib && ln one/scipy/lib/libext.so two/scipy/lib/libext.so
  opener two/p "$PWD/two/scipy/lib/libext.so"
  opener one/p "$PWD/one/scipy/lib/libext.so"
  start ./two/p
}
