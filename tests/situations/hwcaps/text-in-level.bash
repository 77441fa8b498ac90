# The copy in x86-64-v2 is a Git LFS pointer: that ends the search, though the plain copy is sound.
library lib/libm2.so.1 libm2.so.1
mkdir -p lib/glibc-hwcaps/x86-64-v2 && lfs_pointer >lib/glibc-hwcaps/x86-64-v2/libm2.so.1
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
