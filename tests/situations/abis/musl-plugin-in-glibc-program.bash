# A plugin built with musl needs libc.so; for glibc that is no library, and on Debian libc.so is a text for the linker.
on musl library plug.so ''
opener p ./plug.so
start ./p
