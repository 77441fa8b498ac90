# What the compiled wrapper starts is not there: it says nothing at all and ends with 255.
program .p-wrapped
binary_wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --set X y
rm .p-wrapped
because=.p-wrapped
start bin/p
