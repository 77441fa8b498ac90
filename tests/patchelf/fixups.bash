# shellcheck shell=bash
# What nixpkgs' cudnn and tensorrt packages do to their libraries, which open parts of their own with dlopen, on
# libraries made up in their shape: by patchelf and by ours, to the same end.

# fixups DIR: needs $patchelf, the program under test, and $theirs, the yardstick.
fixups() {
  local dir=$1/fixups side program library patchelf=${patchelf:?} theirs=${theirs:?}
  mkdir -p "$dir/files/lib"
  for library in libcublas.so.12 libcublasLt.so.12 libcudnn_cnn_infer.so.8 libcudnn_ops_infer.so.8 libcudnn.so.8 \
    libnvinfer.so.8.6.1 libnvinfer_plugin.so.8.6.1 libnvinfer_builder_resource.so.8.6.1; do
    # A name to tell it by, some code, and data as large as the build can bear.
    # shellcheck disable=SC2016  # the loader expands $ORIGIN
    gcc -shared -fPIC -Wl,-soname,"${library%.6.1}" -Wl,--enable-new-dtags,-rpath,'$ORIGIN' -o "$dir/files/lib/$library" -x c - <<C || return
const char *${library%%.*}(void) { return "$library"; }
char room[1 << 20] = {1};
C
    ln -s "$library" "$dir/files/lib/${library%%.so*}.so"
    [[ $library != *.6.1 ]] || ln -s "$library" "$dir/files/lib/${library%.6.1}"
  done
  echo 'int main(void) { return 0; }' | gcc -o "$dir/files/trtexec" -x c - || return
  for side in ours theirs; do
    cp -a "$dir/files" "$dir/$side"
    program=$theirs
    [[ $side == theirs ]] || program=$patchelf
    (
      set -e
      cd "$dir/$side"
      "$program" lib/libcudnn.so --add-needed libcudnn_cnn_infer.so
      "$program" lib/libcudnn_ops_infer.so --add-needed libcublas.so --add-needed libcublasLt.so
      "$program" --add-needed libnvinfer.so lib/libnvinfer.so.8.6.1 lib/libnvinfer_plugin.so.8.6.1 lib/libnvinfer_builder_resource.so.8.6.1
      "$program" lib/libnvinfer.so.8.6.1 --add-needed libnvinfer_builder_resource.so
      "$program" trtexec --add-needed libnvinfer_plugin.so.8
    ) || { fail "the fix-ups of cudnn and tensorrt, $side"; return; }
    (cd "$dir/$side" && for library in lib/*.so.* trtexec; do echo "$library" && readelf -dW "$library" | sed -n -E 's/.*\((NEEDED|SONAME|RUNPATH)\).*\[/\1 /p' | sort -s -k1,1; done) >"$dir/$side.said"
    # They load: each finds the others next to it.
    (cd "$dir/$side" && LD_BIND_NOW=1 LD_WARN=1 LD_LIBRARY_PATH=$PWD/lib ./trtexec 2>&1) || { fail "trtexec runs after the fix-ups, $side"; return; }
  done
  if diff "$dir/theirs.said" "$dir/ours.said"; then pass "the fix-ups of cudnn and tensorrt: the same dynamic sections"; else fail "the fix-ups of cudnn and tensorrt: the dynamic sections differ"; fi
  if [[ $(find "$dir/ours" -type l | wc -l) == $(find "$dir/files" -type l | wc -l) ]]; then pass "the fix-ups leave the symbolic links"; else fail "the fix-ups replace symbolic links"; fi
}
