# Judged alone the plugin finds a damaged copy; the program that opens it has loaded the good one.
library good/libx.so.1 libx.so.1
library plug/libplug.so libplug.so good/libx.so.1 '-Wl,-rpath,$ORIGIN/../bad'
mkdir bad; head -c 200 /dev/zero | tr '\0' x >bad/libx.so.1
opener p libplug.so -- good/libx.so.1 '-Wl,-rpath,$ORIGIN/good:$ORIGIN/plug'
start ./p
