# liba.so calls itself libb.so: who asks for libb.so later gets it, though a libb.so lies in the run path.
library d/liba.so libb.so
library d/libb.so libb.so -lm
library f/libplug.so libplug.so d/libb.so '-Wl,-rpath,$ORIGIN/../d'
opener p liba.so libplug.so -- '-Wl,-rpath,$ORIGIN/d:$ORIGIN/f'
start ./p
