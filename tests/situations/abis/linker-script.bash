# The file of that name is a text for the linker, as libx.so often is; here it has the versioned name.
library real/libx.so.1 libx.so.1
program p real/libx.so.1 -Wl,-rpath,'$ORIGIN/lib:$ORIGIN/real'
mkdir lib && echo "/* GNU ld script */ OUTPUT_FORMAT(elf64-x86-64) GROUP ( $PWD/real/libx.so.1 )" >lib/libx.so.1
start ./p
