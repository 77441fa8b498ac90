# The packages of ../patterns, which patterns.md shows: each as it is written without this
# project and as it is written with it, built, and looked at.
support:
let
  inherit (support)
    check
    driver
    lib
    libcuda
    package
    pkgs
    ;

  # The toolkit: a runtime, the stubs, a library that is opened by name, and the machine's
  # nvcc, or a C++ compiler in its place where there is none.
  cudaPackages = {
    cuda_cudart = package {
      pname = "cuda_cudart";
      outputs = [
        "out"
        "stubs"
      ];
      dontFixup = true;
      build = ''
        mkdir -p $out/lib $stubs/lib/stubs
        ${libcuda 34 "$stubs/lib/stubs/libcuda.so"}
        echo 'int cudart(void) { return 0; }' > cudart.c
        $CC -shared -fPIC -Wl,-soname,libcudart.so.12 -o $out/lib/libcudart.so.12 cudart.c
        ln -s libcudart.so.12 $out/lib/libcudart.so
      '';
    };
    cuda_nvrtc = package {
      pname = "cuda_nvrtc";
      dontFixup = true;
      build = ''
        mkdir -p $out/lib
        $CC -shared -nostdlib -xc -Wl,-soname,libnvrtc.so.12 -o $out/lib/libnvrtc.so.12 /dev/null
      '';
    };
    cuda_nvcc = pkgs.runCommand "cuda_nvcc" { } ''
      mkdir -p $out/bin
      cat > $out/bin/nvcc <<'END'
      #!${pkgs.bash}/bin/bash
      for nvcc in /usr/local/cuda/bin/nvcc /usr/bin/nvcc; do
        if [[ -x $nvcc ]]; then exec "$nvcc" -ccbin "$CXX" "$@"; fi
      done
      exec "$CXX" -x c++ "''${@/#-l/-Wl,-l}"
      END
      chmod +x $out/bin/nvcc
    '';
  };
  inherit (cudaPackages) cuda_cudart cuda_nvrtc;
  stubs = "${cuda_cudart.stubs}/lib/stubs";

  # What the packages are made of.
  use = "int cuInit(unsigned); int cudart(void);";
  sources = {
    prebuilt = package {
      pname = "prebuilt-source";
      dontFixup = true;
      build = ''
        mkdir -p $out/bin $out/lib
        echo '${use} int own(void) { return cuInit(0) + cudart(); }' > own.c
        echo 'int own(void); int main(int n, char **a) { (void)a; return n > 9 ? own() : 0; }' > main.c
        $CC -shared -fPIC -Wl,-soname,libown.so.1 -o $out/lib/libown.so.1 own.c ${cuda_cudart}/lib/libcudart.so.12 ${stubs}/libcuda.so
        $CC -Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2,--allow-shlib-undefined -o $out/bin/kernels main.c $out/lib/libown.so.1
      '';
    };
    cmake = package {
      pname = "cmake-source";
      dontFixup = true;
      build = ''
        mkdir -p $out
        echo '${use} int main(int n, char **a) { (void)a; return n > 9 ? cuInit(0) + cudart() : 0; }' > $out/kernels.c
        cat > $out/CMakeLists.txt <<'END'
        cmake_minimum_required(VERSION 3.18)
        project(kernels LANGUAGES C)
        find_library(CUDART cudart PATHS ''${CMAKE_PREFIX_PATH} ${cuda_cudart}/lib REQUIRED)
        add_executable(kernels kernels.c)
        target_link_libraries(kernels PRIVATE ''${CUDA_cuda_driver_LIBRARY} ''${CUDART})
        install(TARGETS kernels RUNTIME DESTINATION bin)
        END
      '';
    };
    nvcc = package {
      pname = "nvcc-source";
      dontFixup = true;
      build = ''
        mkdir -p $out
        echo 'extern "C" int cuInit(unsigned); int main(int n, char **a) { (void)a; return n > 9 ? cuInit(0) : 0; }' > $out/kernels.cu
      '';
    };
    by-hand = package {
      pname = "by-hand-source";
      dontFixup = true;
      build = ''
        mkdir -p $out
        echo '#include <dlfcn.h>
        int driver(void) { return dlopen("libcuda.so.1", RTLD_NOW) != 0; }' > $out/kernels.c
      '';
    };
    # A wheel: an extension that brings a library of its own, which opens one of the toolkit's, and a script that looks for the driver as Triton does.
    wheel = package {
      name = "kernels-1.0-py3-none-any.whl";
      nativeBuildInputs = [ pkgs.python3 ];
      dontFixup = true;
      build = ''
        mkdir -p kernels/lib kernels-1.0.dist-info
        echo '#include <dlfcn.h>
        ${use} int own(void) { return cuInit(0) + cudart() + (dlopen("libnvrtc.so.12", RTLD_NOW) != 0); }' > own.c
        echo 'int own(void); int PyInit__C(void) { return own(); }' > ext.c
        $CC -shared -fPIC -Wl,-soname,libown.so -o kernels/lib/libown.so own.c ${cuda_cudart}/lib/libcudart.so.12 ${stubs}/libcuda.so
        $CC -shared -fPIC -o kernels/_C.so ext.c kernels/lib/libown.so -Wl,--allow-shlib-undefined
        touch kernels/__init__.py
        cat > kernels/driver.py <<'END'
        import os, subprocess


        def libcuda_dirs():
            named = os.getenv("TRITON_LIBCUDA_PATH")
            if named:
                return [named]
            libs = subprocess.check_output(["/sbin/ldconfig", "-p"]).decode()
            return [os.path.dirname(line.split()[-1]) for line in libs.splitlines() if "libcuda.so.1" in line]
        END
        printf '%s\n' 'Metadata-Version: 2.1' 'Name: kernels' 'Version: 1.0' > kernels-1.0.dist-info/METADATA
        printf '%s\n' 'Wheel-Version: 1.0' 'Generator: check' 'Root-Is-Purelib: true' 'Tag: py3-none-any' > kernels-1.0.dist-info/WHEEL
        find kernels kernels-1.0.dist-info -type f -printf '%p,,\n' > RECORD
        mv RECORD kernels-1.0.dist-info/
        python3 -m zipfile -c kernels.zip kernels kernels-1.0.dist-info
        mv kernels.zip $out
      '';
    };
  };
  python3Packages = pkgs.python3Packages;
  # nixpkgs', or what it does with a wheel.
  buildPythonPackage =
    python3Packages.buildPythonPackage or (
      args:
      pkgs.stdenv.mkDerivation (
        removeAttrs args [ "format" ]
        // {
          dontUnpack = true;
          nativeBuildInputs = [ pkgs.python3 ] ++ args.nativeBuildInputs;
          installPhase = ''
            runHook preInstall
            mkdir -p $out/${pkgs.python3.sitePackages}
            python3 -m zipfile -e $src $out/${pkgs.python3.sitePackages}
            runHook postInstall
          '';
        }
      )
    );

  built =
    name:
    let
      arguments = {
        inherit cudaPackages buildPythonPackage;
        inherit (support.hooks) cudaRunpathHook;
        python = pkgs.python3;
        src = sources.${name} or sources.wheel;
      };
      call =
        file: pkgs.callPackage file (builtins.intersectAttrs (lib.functionArgs (import file)) arguments);
    in
    {
      old = call (../patterns/before + "/${name}.nix");
      new = (call (../patterns + "/${name}.nix")).overrideAttrs (_: {
        # The stand-in's C library is not the one of the interpreter that a prebuilt program gets.
        dontNoRunpathAmbiguity = name == "prebuilt";
      });
    };
  first = "${support.compat}:${driver}";
  site = pkgs.python3.sitePackages;
  ldconfigReturns = package: ''
    python=$(find ${package} -name driver.py)
    contains "driver.py" "$(< $python)" ${driver}
  '';

  patterns = {
    wheel =
      { old, new }:
      ''
        own=$(find ${old} -name libown.so)
        runPathIs $own ${driver}:${cuda_cudart}/lib
        own=$(find ${new} -name libown.so)
        runPathIs $own ${first}:${cuda_cudart}/lib
        runPathIs ''${own%lib/libown.so}_C.so ${first}:''${own%/libown.so}
      '';
    torch-bin =
      { old, new }:
      ''
        own=$(find ${old} -name libown.so)
        contains "old run path" "$(runPath $own)" ${cuda_nvrtc}/lib
        own=$(find ${new} -name libown.so)
        runPathIs $own ${first}:${cuda_cudart}/lib:${cuda_nvrtc}/lib
        runPathIs ''${own%lib/libown.so}_C.so ${first}:''${own%/libown.so}
      '';
    triton =
      { old, new }:
      ldconfigReturns old
      + ldconfigReturns new
      + ''
        runPathIs $(find ${new} -name libown.so) ${first}:${cuda_cudart}/lib
      '';
    nvcc =
      { old, new }:
      ''
        contains "old run path" "$(runPath ${old}/bin/kernels)" ${driver}
        contains "new run path" "$(runPath ${new}/bin/kernels):" ${first}:
        lacks "new run path" "$(runPath ${new}/bin/kernels)" stubs
      '';
    by-hand =
      { old, new }:
      ''
        library=lib/libkernels.so
        contains "old run path" "$(runPath ${old}/$library)" ${driver}
        contains "new run path" "$(runPath ${new}/$library):" ${first}:
        # The lines may stay, and alone they choose the files.
        same "run path with the lines" "$(runPath ${new.overrideAttrs { inherit (old) postFixup; }}/$library)" \
          "$(runPath ${new}/$library)"
        contains "run path of a chosen file" "$(runPath ${
          new.overrideAttrs {
            inherit (old) postFixup;
            dontAutoAddDriverRunpath = true;
          }
        }/$library)" ${driver}
        lacks "run path of another" "$(runPath ${
          new.overrideAttrs { dontAutoAddDriverRunpath = true; }
        }/$library)" ${driver}
      '';
    prebuilt =
      { old, new }:
      ''
        runPathIs ${old}/lib/libown.so.1 '$ORIGIN/../lib:${driver}:${cuda_cudart}/lib'
        runPathIs ${new}/lib/libown.so.1 ${first}:${cuda_cudart}/lib
        runPathIs ${new}/bin/kernels ${first}:${new}/lib
        for program in ${old}/bin/kernels ${new}/bin/kernels; do
          contains "interpreter" "$(readelf -lW $program)" "$(< ${pkgs.stdenv.cc.bintools or pkgs.bintools}/nix-support/dynamic-linker)]"
        done
      '';
  }
  # The stand-in for nixpkgs that has no CMake throws here.
  // lib.optionalAttrs (builtins.tryEval (pkgs.cmake or (throw "none"))).success {
    cmake =
      { old, new }:
      ''
        lacks "old run path" "$(runPath ${old}/bin/kernels)" stubs
        contains "new run path" "$(runPath ${new}/bin/kernels):" ${first}:
        lacks "new run path" "$(runPath ${new}/bin/kernels)" stubs
      '';
  };
in
lib.mapAttrs' (
  name: assertions:
  lib.nameValuePair "pattern-${name}" (check name (assertions (built name)))
) patterns
