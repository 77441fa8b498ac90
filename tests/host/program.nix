# The program as Nix builds it: everything that it needs in the store, its own glibc among it, and a loader that reads
# neither /etc/ld.so.cache nor /lib and /usr/lib, as nixpkgs' does. The parts are this machine's.
{ source, libcuda }:
derivation {
  name = "cuda-program";
  system = builtins.currentSystem;
  builder = "/bin/sh";
  PATH = "/usr/bin:/bin";
  LC_ALL = "C";
  inherit source libcuda;
  args = [
    "-euc"
    ''
      mkdir -p $out/bin $out/lib
      loader=$(readelf -lW /bin/sh | sed -n 's/.*interpreter: \(.*\)\]$/\1/p')
      for library in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
        cp -L $(dirname $(readlink -f $loader))/$library $out/lib/
      done
      sed 's|/etc/ld\.so\.cache|/nix/ld.so.cache|g; s|/lib/|/nil/|g' $loader >$out/lib/ld.so
      chmod 755 $out/lib/ld.so
      # nixpkgs' loader finds the rest of its glibc by itself; here the program brings it.
      gcc -O1 -o $out/bin/program $source $libcuda -Wl,--no-as-needed $out/lib/lib*.so.* \
        -Wl,--dynamic-linker=$out/lib/ld.so,--enable-new-dtags,-rpath,$out/lib:/run/opengl-driver/lib,--allow-shlib-undefined
    ''
  ];
}
