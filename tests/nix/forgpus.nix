# lib.forGPUs reads a closure while Nix evaluates, which the flake's checks are not to do on each system. So what is checked
# of it is here: a program, a library with GPU code that names itself, what refers to both, and what refers to neither.
let
  nixpkgs = import ../nixpkgs { };
  flakeLib = import ../../nix/lib.nix {
    packagesFor = _: import ../../nix { pkgs = nixpkgs; };
    pkgsFor = _: nixpkgs;
    overlays = import ../../nix/overlays.nix;
  };
  inherit (nixpkgs) runCommand stdenv;
  library = stdenv.mkDerivation {
    name = "kernels-1.0";
    dontUnpack = true;
    installPhase = ''
      mkdir -p $out/lib
      cat > kernels.s <<'END'
      .macro entry arch
        .2byte 2, 0x101
        .4byte 64
        .8byte 300000, 0
        .2byte 7, 8
        .4byte \arch
        .8byte 0, 0x11, 0, 0
        .fill 300000, 1, 7
      .endm
      .section .nv_fatbin,"a",%progbits
      .balign 8
      .4byte 0xBA55ED50
      .2byte 1, 16
      .8byte 2 * 300064
      entry 80
      entry 90
      END
      echo "const char itself[] = \"$out/share\"; const char *where(void) { return itself; } int kernels(void) { return 42; }" > itself.c
      $CC -shared -fPIC -Wl,-soname,libkernels.so -o $out/lib/libkernels.so kernels.s itself.c
      mkdir $out/share
      echo $out > $out/share/itself
      # What cannot be read, and what must not change.
      head -c 70000 $out/lib/libkernels.so > $out/share/broken
      echo signed > signature
      $OBJCOPY --add-section .sig=signature $out/lib/libkernels.so $out/share/signed
    '';
  };
  other = runCommand "other" { } ''
    mkdir $out
    echo other > $out/text
  '';
  program = stdenv.mkDerivation {
    name = "program-1.0";
    dontUnpack = true;
    inherit other;
    installPhase = ''
      mkdir -p $out/bin $out/share
      echo 'int puts(const char *); const char *where(void); int kernels(void); int main(void) { puts(where()); return kernels() != 42; }' > main.c
      $CC -o $out/bin/program main.c -L${library}/lib -lkernels -Wl,-rpath,${library}/lib
      echo "$other ${library}" > $out/share/names
    '';
  };
  thinned = flakeLib.forGPUs [ "9.0" ] program;
  tools = flakeLib.forGPUs [ "9.0" ] other;
in
runCommand "for-gpus"
  {
    nativeBuildInputs = [ (import ../../nix { pkgs = nixpkgs; }).cuda-runpath ];
    inherit
      thinned
      program
      other
      library
      tools
      ;
    exportReferencesGraph = [
      "graph"
      thinned
    ];
  }
  ''
    same() { if [[ $2 != "$3" ]]; then echo "$1: $2, want $3"; exit 1; fi; }
    new=$(sed -n 's|.* ||p' $thinned/share/names)
    same "it is another one" "$([[ $new != $library ]] && echo yes)" yes
    same "of the same name" "''${new:(-12)}" "''${library:(-12)}"
    same "the program runs, and the library knows where it is" "$($thinned/bin/program)" "$new/share"
    same "what names itself" "$(< $new/share/itself)" $new
    same "what has no GPU code stays" "$(sed 's| .*||' $thinned/share/names)" "$other"
    case "$(runpath gpu $new/lib/libkernels.so | tr -s ' ')" in
    *"thinned for 9.0"*) ;;
    *) echo "its code: $(runpath gpu $new/lib/libkernels.so)"; exit 1 ;;
    esac
    same "what cannot be read" "$(stat -c %s $new/share/broken)" 70000
    same "what is signed stays, but for references" "$(sed "s|''${new##*/}|''${library##*/}|g" $new/share/signed | sha256sum)" \
      "$(sha256sum < $library/share/signed)"
    if grep -qF $library graph; then echo "the old library is still in the closure"; exit 1; fi
    same "a package without GPU code" "$tools" "$other"
    echo fine > $out
  ''
