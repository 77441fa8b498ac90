# LD_PRELOAD of a position-independent program is passed over: the start goes on without it.
program pre/tool
program p
LD_PRELOAD=$PWD/pre/tool start ./p
