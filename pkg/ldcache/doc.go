// Package ldcache reads what ldconfig writes and reads: the loader's cache
// /etc/ld.so.cache, in its three layouts and both byte orders, and the list of
// directories in /etc/ld.so.conf.
//
// The formats are those of the GNU C Library: sysdeps/generic/dl-cache.h (layout),
// elf/dl-cache.c (what the loader takes), sysdeps/generic/ldconfig.h and each
// machine's dl-cache.h (flags), elf/ldconfig.c (the configuration).
package ldcache
