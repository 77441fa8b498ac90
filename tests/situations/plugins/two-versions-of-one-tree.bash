# Two trees, each with its plugin, helper and run path, under the same names: the second plugin gets the first tree's helper by soname.
library a/libhelp.so.1 libhelp.so.1
library b/libhelp.so.1 libhelp.so.1 -lm
library a/plug.so '' a/libhelp.so.1 '-Wl,-rpath,$ORIGIN'
library b/plug.so '' b/libhelp.so.1 '-Wl,-rpath,$ORIGIN'
opener p "$PWD/a/plug.so" "$PWD/b/plug.so"
start ./p
