# shellcheck shell=bash
# The situations of majors: a function each, whose comment says what it is. situations.py calls them; their words are of words.bash.

# libcudart.so.12 is a link to a file whose soname is libcudart.so.13: one library in the process, for whoever asks for either.
behind-a-link() {
  host
  library lib/libcudart.so.13 libcudart.so.13
  library made/libcudart.so.12 libcudart.so.12
  ln -s libcudart.so.13 lib/libcudart.so.12
  program p made/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  rm -r made
  start ./p
}

# The program brings CUDA 12's runtime, a plugin that it opens 13's.
by-plugin() {
  host
  library lib/libcudart.so.12 libcudart.so.12
  library plug/libcudart.so.13 libcudart.so.13
  library plug/libplug.so libplug.so plug/libcudart.so.13 '-Wl,-rpath,$ORIGIN'
  opener p libplug.so -- lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:$ORIGIN/plug:/run/opengl-driver/lib'
  because='libcudart.so.12 libcudart.so.13' start ./p
}

# Neither the program nor either plugin alone has two; the process has.
by-two-plugins() {
  host
  library plug/libcudart.so.12 libcudart.so.12
  library plug/libcudart.so.13 libcudart.so.13
  library plug/liba.so liba.so plug/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
  library plug/libb.so libb.so plug/libcudart.so.13 '-Wl,-rpath,$ORIGIN'
  opener p liba.so libb.so -- '-Wl,-rpath,$ORIGIN/plug:/run/opengl-driver/lib'
  because='libcudart.so.12 libcudart.so.13' start ./p
}

# The first runtime is closed before the second is opened: they are never in the process together.
closed-between() {
  host
  library lib/libcudart.so.12 libcudart.so.12
  library lib/libcudart.so.13 libcudart.so.13
  opener p --close libcudart.so.12 --close libcudart.so.13 -- '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# libcublas of 13 finds libcublasLt of 12 as well, since somebody else needs that.
cublas-and-lt() {
  host
  library lib/libcublasLt.so.13 libcublasLt.so.13
  library lib/libcublasLt.so.12 libcublasLt.so.12
  library lib/libcublas.so.13 libcublas.so.13 lib/libcublasLt.so.13 '-Wl,-rpath,$ORIGIN'
  program p lib/libcublas.so.13 lib/libcublasLt.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libcublasLt.so.12 libcublas.so.13 libcublasLt.so.13' start ./p
}

# Two majors of cuDNN, which have the names of their functions in common.
cudnn-8-and-9() {
  host
  with 'int cudnnCreate(void) { return 8; }' library lib/libcudnn.so.8 libcudnn.so.8
  with 'int cudnnCreate(void) { return 9; }' library lib/libcudnn.so.9 libcudnn.so.9
  library lib/libuse.so libuse.so lib/libcudnn.so.8 '-Wl,-rpath,$ORIGIN'
  program p lib/libcudnn.so.9 lib/libuse.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libcudnn.so.8 libcudnn.so.9' start ./p
}

# cuDNN 9 and NCCL 2 go with CUDA 12 as with 13: their numbers are their own.
cudnn-with-any() {
  host
  library lib/libcudart.so.13 libcudart.so.13
  library lib/libcudnn.so.9 libcudnn.so.9
  library lib/libnccl.so.2 libnccl.so.2
  program p lib/libcudart.so.13 lib/libcudnn.so.9 lib/libnccl.so.2 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# CUDA 11 calls its runtime libcudart.so.11.0.
eleven-and-twelve() {
  host
  library lib/libcudart.so.11.0 libcudart.so.11.0
  library lib/libcudart.so.12 libcudart.so.12
  library lib/libold.so libold.so lib/libcudart.so.11.0 '-Wl,-rpath,$ORIGIN'
  program p lib/libcudart.so.12 lib/libold.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libcudart.so.11.0 libcudart.so.12' start ./p
}

# The plugin that would bring the second runtime cannot be opened: there is one in the process, and something is missing.
failed-plugin() {
  host
  library plug/libcudart.so.12 libcudart.so.12
  library plug/libcudart.so.13 libcudart.so.13
  library gone/libgone.so.1 libgone.so.1
  library plug/liba.so liba.so plug/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
  library plug/libb.so libb.so plug/libcudart.so.13 gone/libgone.so.1 '-Wl,-rpath,$ORIGIN'
  rm -r gone
  opener p liba.so libb.so -- '-Wl,-rpath,$ORIGIN/plug:/run/opengl-driver/lib'
  start ./p
}

# NVIDIA/cudnn-frontend 211: libnvrtc of CUDA 13 and libnvJitLink of 12 in one process.
nvrtc-13-nvjitlink-12() {
  host
  library lib/libnvrtc.so.13 libnvrtc.so.13
  library lib/libnvJitLink.so.12 libnvJitLink.so.12
  program p lib/libnvrtc.so.13 lib/libnvJitLink.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libnvrtc.so.13 libnvJitLink.so.12' start ./p
}

# The program brings nvJitLink 12 and opens libnvrtc.so.13 by name.
nvrtc-opened() {
  host
  library lib/libnvrtc.so.13 libnvrtc.so.13
  library lib/libnvJitLink.so.12 libnvJitLink.so.12
  opener p libnvrtc.so.13 -- lib/libnvJitLink.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libnvrtc.so.13 libnvJitLink.so.12' start ./p
}

# CUDA 12's own libraries have other majors: libcufft 11, libcurand 10, libcusolver 11. Nothing is mixed here.
one-major-by-other-numbers() {
  host
  library lib/libcudart.so.12 libcudart.so.12
  library lib/libcufft.so.11 libcufft.so.11
  library lib/libcurand.so.10 libcurand.so.10
  library lib/libcusolver.so.11 libcusolver.so.11
  library lib/libnvJitLink.so.12 libnvJitLink.so.12
  program p lib/libcudart.so.12 lib/libcufft.so.11 lib/libcurand.so.10 lib/libcusolver.so.11 lib/libnvJitLink.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# Two copies of one runtime: by its soname the first serves both, and there is one in the process.
one-soname-two-copies() {
  host
  library a/libcudart.so.12 libcudart.so.12
  library b/libcudart.so.12 libcudart.so.12 -lm
  library b/libuse.so libuse.so b/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
  program p a/libcudart.so.12 b/libuse.so '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b:/run/opengl-driver/lib'
  start ./p
}

# The other runtime lies in the same directory, and nobody needs or opens it.
only-beside() {
  host
  library lib/libcudart.so.12 libcudart.so.12
  library lib/libcudart.so.13 libcudart.so.13
  program p lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# One program names both runtimes itself.
own-needs() {
  host
  library lib/libcudart.so.12 libcudart.so.12
  library lib/libcudart.so.13 libcudart.so.13
  program p lib/libcudart.so.12 lib/libcudart.so.13 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libcudart.so.12 libcudart.so.13' start ./p
}

# The second runtime comes by LD_PRELOAD.
preloaded() {
  host
  library lib/libcudart.so.12 libcudart.so.12
  library pre/libcudart.so.13 libcudart.so.13
  wrapper bin/p "$PWD/p.bin" --set LD_PRELOAD "$PWD/pre/libcudart.so.13"
  program p.bin lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libcudart.so.12 libcudart.so.13' start bin/p
}

# Two modules of Python's, each with its own runtime by its own run path.
python-extensions() {
  host
  library cu12/libcudart.so.12 libcudart.so.12
  library cu13/libcudart.so.13 libcudart.so.13
  extension one.so cu12/libcudart.so.12 '-Wl,-rpath,$ORIGIN/cu12'
  extension two.so cu13/libcudart.so.13 '-Wl,-rpath,$ORIGIN/cu13'
  python p 'import one' 'import two'
  because='libcudart.so.12 libcudart.so.13' start ./p
}

# A script of Python's opens one library of each major, as two wheels do that were installed into one environment.
python-wheels() {
  host
  library nvidia/cu12/libcudart.so.12 libcudart.so.12
  library nvidia/cu13/libcudart.so.13 libcudart.so.13
  python p "ctypes.CDLL(\"$PWD/nvidia/cu12/libcudart.so.12\")" "ctypes.CDLL(\"$PWD/nvidia/cu13/libcudart.so.13\")"
  because='libcudart.so.12 libcudart.so.13' start ./p
}

# The second runtime is needed and not there: the process does not start, and what is missing comes first.
second-missing() {
  host
  library lib/libcudart.so.12 libcudart.so.12
  library gone/libcudart.so.13 libcudart.so.13
  library lib/libuse.so libuse.so gone/libcudart.so.13
  rm -r gone
  program p lib/libcudart.so.12 lib/libuse.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p
}

# Two programs of one directory, one with CUDA 12 and one with 13, which are never in one process.
two-programs() {
  host
  library lib/libcudart.so.12 libcudart.so.12
  library lib/libcudart.so.13 libcudart.so.13
  program p12 lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  program p13 lib/libcudart.so.13 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  start ./p12
}

# The same with versioned symbols, as NVIDIA's libcudart has: each library gets its own, and they do not share device state.
two-runtimes-versioned() {
  host
  with 'int cudaMalloc(void) { return 12; }' versioned 'libcudart.so.12 { *; };' library lib/libcudart.so.12 libcudart.so.12
  with 'int cudaMalloc(void) { return 13; }' versioned 'libcudart.so.13 { *; };' library lib/libcudart.so.13 libcudart.so.13
  with 'int cudaMalloc(void); int use12(void) { return cudaMalloc() != 12; }' library lib/libuse12.so libuse12.so lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
  with 'int cudaMalloc(void); int use13(void) { return cudaMalloc() != 13; }' library lib/libuse13.so libuse13.so lib/libcudart.so.13 '-Wl,-rpath,$ORIGIN'
  with 'int use12(void), use13(void); int run(void) { return use12() + use13(); }' program p lib/libuse12.so lib/libuse13.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libcudart.so.12 libcudart.so.13' start ./p
}

# Two libraries of one program, built with CUDA 12 and 13: each brings its libcudart, whose functions have one name.
two-runtimes() {
  host
  with 'int cudaMalloc(void) { return 12; }' library lib/libcudart.so.12 libcudart.so.12
  with 'int cudaMalloc(void) { return 13; }' library lib/libcudart.so.13 libcudart.so.13
  with 'int cudaMalloc(void); int use12(void) { return cudaMalloc() != 12; }' library lib/libuse12.so libuse12.so lib/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
  with 'int cudaMalloc(void); int use13(void) { return cudaMalloc() != 13; }' library lib/libuse13.so libuse13.so lib/libcudart.so.13 '-Wl,-rpath,$ORIGIN'
  with 'int use12(void), use13(void); int run(void) { return use12() + use13(); }' program p lib/libuse12.so lib/libuse13.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
  because='libcudart.so.12 libcudart.so.13' start ./p
}
