# A plugin fails because what it needs is not there yet; another brings that, and then the first can be opened by no change of its own.
library x/libdep.so libdep.so
library f/libplug.so libplug.so x/libdep.so
library f/libother.so libother.so x/libdep.so '-Wl,-rpath,$ORIGIN/../x'
opener p libplug.so libother.so libplug.so -- '-Wl,-rpath,$ORIGIN/f'
start ./p
