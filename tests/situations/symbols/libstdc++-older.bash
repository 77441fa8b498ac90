# A libstdc++.so.6 of the program's own that lacks a GLIBCXX version which a plugin needs.
versioned 'GLIBCXX_3.4 { *; };' library own/libstdc++.so.6 libstdc++.so.6
with 'int fresh(void) { return 0; }' versioned 'GLIBCXX_3.4 { f_*; }; GLIBCXX_3.4.99 { fresh; };' library newer/libstdc++.so.6 libstdc++.so.6
with 'int fresh(void); int plugin(void) { return fresh(); }' library plug/libplug.so libplug.so newer/libstdc++.so.6
opener p libplug.so -- own/libstdc++.so.6 '-Wl,-rpath,$ORIGIN/own:$ORIGIN/plug'
start ./p
