# The note asks for the working directory (?.), which was the library's when it was written; there is no run path, and it is started from elsewhere.
library lib/libx.so.1 libx.so.1
program lib/p lib/libx.so.1 "$(note libx.so.1 '?.')"
start ./lib/p
