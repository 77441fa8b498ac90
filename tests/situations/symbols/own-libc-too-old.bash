# The program brings a libc.so.6 that lacks what the program needs; another glibc's libc.so.6 first in the run path is no remedy.
versioned 'GLIBC_2.2.5 { f_*; };' library own/libc.so.6 libc.so.6 -nostdlib
program p '-Wl,-rpath,$ORIGIN/own'
start ./p
