# In LD_LIBRARY_PATH, unlike in a run path, a semicolon separates as well.
library one/libone.so.1 libone.so.1
library two/libtwo.so.1 libtwo.so.1
program p.bin one/libone.so.1 two/libtwo.so.1
wrapper bin/p "$PWD/p.bin" --set LD_LIBRARY_PATH "$PWD/one;$PWD/two"
start bin/p
