# Two --suffix of one variable: the first directory stays first.
library first/libx.so.1 libx.so.1
library second/libx.so.1 libx.so.1 -lm
program libexec/p first/libx.so.1
wrapper bin/p "$PWD/libexec/p" --suffix LD_LIBRARY_PATH : "$PWD/first" --suffix LD_LIBRARY_PATH : "$PWD/second"
start bin/p
