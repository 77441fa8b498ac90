# A musl program: its loader looks at LD_LIBRARY_PATH before the run path, and the wrapper's copy lacks what the program's has.
on musl library good/libx.so.1 libx.so.1
on musl library gone/libgone.so.1 libgone.so.1
on musl library bad/libx.so.1 libx.so.1 gone/libgone.so.1
rm -r gone
on musl program p.bin good/libx.so.1 "-Wl,-rpath,$PWD/good"
wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/bad"
start bin/p
