# wrapProgram was called twice: the inner wrapper runs last, so its directory stands first.
library outer/libx.so.1 libx.so.1
library inner/libx.so.1 libx.so.1 -lm
program bin/.p-wrapped_ outer/libx.so.1
wrapper bin/.p-wrapped "$PWD/bin/.p-wrapped_" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/inner"
wrapper bin/p "$PWD/bin/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/outer"
start bin/p
