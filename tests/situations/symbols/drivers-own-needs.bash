# The host's driver needs a newer libstdc++ than the program brings: the driver cannot be loaded.
with 'int fresh(void) { return 0; }' versioned 'GLIBCXX_3.4 { f_*; }; GLIBCXX_3.4.99 { fresh; };' library newer/libstdc++.so.6 libstdc++.so.6
versioned 'GLIBCXX_3.4 { *; };' library own/libstdc++.so.6 libstdc++.so.6
with 'int fresh(void); int uses(void) { return fresh(); }' driver /run/opengl-driver/lib/libcuda.so.1 0 newer/libstdc++.so.6 "-Wl,-rpath,$PWD/newer"
cuda_program p own/libstdc++.so.6 /run/opengl-driver/lib/libcuda.so.1 '-Wl,-rpath,/run/opengl-driver/lib:$ORIGIN/own'
start ./p
