# shellcheck shell=bash disable=SC2154
# What the compiler draws by lot depends on the name of the output alone.
__seed=${NIX_OUTPATH_USED_AS_RANDOM_SEED:-$out}
__seed=${__seed##*/}
export NIX_CFLAGS_COMPILE="${NIX_CFLAGS_COMPILE-} -frandom-seed=${__seed:0:10}"
unset __seed
