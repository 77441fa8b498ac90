# A plugin that the program opens by its bare name is found in the wrapper's directory alone.
library plugins/libplug.so libplug.so
opener .p-wrapped libplug.so
binary_wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/plugins"
start bin/p
