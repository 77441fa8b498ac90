# A position-independent program cannot be opened as a library.
program plug/tool.so
opener p "$PWD/plug/tool.so"
start ./p
