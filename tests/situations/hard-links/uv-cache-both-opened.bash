# A process opens the linked library under the name that lacks its dependency, fails, and then under the one that has it.
library one/blas/lib/libopenblas.so.0 libopenblas.so.0
library one/scipy/lib/libext.so libext.so one/blas/lib/libopenblas.so.0 -Wl,-rpath,'$ORIGIN/../../blas/lib'
mkdir -p two/scipy/lib && ln one/scipy/lib/libext.so two/scipy/lib/libext.so
opener p ./two/scipy/lib/libext.so ./one/scipy/lib/libext.so
start ./p
