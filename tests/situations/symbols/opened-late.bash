# A plugin that is opened with RTLD_LAZY: the open succeeds, and the call of what nothing defines ends the process.
with 'int absent(void); int plugin(void) { return absent(); }' library plug/libplug.so libplug.so
opener p --lazy libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
