# The version is needed by a weak reference alone: its absence does not end the start.
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
with 'int f_w(void) __attribute__((weak)); int f_v(void); int run(void) { return f_w ? f_w() : f_v(); }' program p new/libv.so.1 '-Wl,-rpath,$ORIGIN/old'
# The flag VER_FLG_WEAK, after the hash of "V2" in the list of needed versions: GNU ld does not set it.
LC_ALL=C sed -i 's/\x92\x05\x00\x00\x00\x00/\x92\x05\x00\x00\x02\x00/' p
readelf -VW p | grep -q 'Name: V2  Flags: WEAK' || cannot "the flag is not set"
start ./p
