# A module of Python's whose library is not there cannot be imported.
library gone/libgone.so.1 libgone.so.1
extension mod.so gone/libgone.so.1
rm -r gone
python p 'import mod'
start ./p
