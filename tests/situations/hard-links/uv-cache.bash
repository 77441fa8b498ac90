# uv links a wheel's files from its cache into each environment: the second one lacks the wheel that it needs.
library one/blas/lib/libopenblas.so.0 libopenblas.so.0
library one/scipy/lib/libext.so libext.so one/blas/lib/libopenblas.so.0 -Wl,-rpath,'$ORIGIN/../../blas/lib'
mkdir -p two/scipy/lib && ln one/scipy/lib/libext.so two/scipy/lib/libext.so
opener two/p "$PWD/two/scipy/lib/libext.so"
opener one/p "$PWD/one/scipy/lib/libext.so"
start ./two/p
