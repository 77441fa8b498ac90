// Package ldcache reads the loader's cache /etc/ld.so.cache, in its three layouts and both byte orders.
//
// The formats are those of the GNU C Library: sysdeps/generic/dl-cache.h (layout), elf/dl-cache.c (what the loader
// takes), sysdeps/generic/ldconfig.h and each machine's dl-cache.h (flags).
package ldcache
