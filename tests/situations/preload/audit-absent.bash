# LD_AUDIT of what is not there is passed over with a message.
program p
LD_AUDIT=$PWD/lib/libgone.so start ./p
