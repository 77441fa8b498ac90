# A compiled wrapper starts a text wrapper, which starts the program: each gives one of two directories that are needed.
library one/libone.so.1 libone.so.1
library two/libtwo.so.1 libtwo.so.1
program bin/.p-wrapped_ one/libone.so.1 two/libtwo.so.1
wrapper bin/.p-wrapped "$PWD/bin/.p-wrapped_" --prefix LD_LIBRARY_PATH : "$PWD/one"
binary_wrapper bin/p "$PWD/bin/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/two"
start bin/p
