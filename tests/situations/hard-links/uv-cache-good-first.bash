# The other order: the inode is there already, so the second name opens too, although its own directory lacks the dependency.
library one/blas/lib/libopenblas.so.0 libopenblas.so.0
library one/scipy/lib/libext.so libext.so one/blas/lib/libopenblas.so.0 -Wl,-rpath,'$ORIGIN/../../blas/lib'
mkdir -p two/scipy/lib && ln one/scipy/lib/libext.so two/scipy/lib/libext.so
opener p ./one/scipy/lib/libext.so ./two/scipy/lib/libext.so
start ./p
