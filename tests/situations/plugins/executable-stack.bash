# A plugin that asks for an executable stack: glibc before 2.41 makes the stack so, later ones refuse.
[[ $(getconf GNU_LIBC_VERSION) < 'glibc 2.41' ]] || cannot "this glibc does not open it"
library plug/libplug.so libplug.so -Wl,-z,execstack
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
