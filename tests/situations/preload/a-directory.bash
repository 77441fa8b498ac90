# LD_PRELOAD of a directory is passed over with a message.
mkdir pre
program p
LD_PRELOAD=$PWD/pre start ./p
