# cudaThin and cudaBlankOptions: code for other GPUs than the CUDA set's, and what keeps a compiler in a closure.
support:
let
  inherit (support)
    check
    inEachMode
    lib
    logOfFailure
    logOfSuccess
    ours
    package
    pkgs
    ;
  # cudaRunpathHook does not have the list of its set: thinCuda's hook brings it, or the package.
  set = ours.hooksFor {
    flags = {
      cudaCapabilities = [ "9.0" ];
      cudaForwardCompat = false;
    };
  };

  # What nvlink was told of with -L.
  compiler = package {
    pname = "compiler";
    dontFixup = true;
    build = ''
      mkdir -p $out/lib
      echo compiler > $out/lib/compiler
    '';
  };

  # Two cubins as nvlink of CUDA 12.8 leaves them, with its command line in a note; compiled once.
  compiled = package {
    pname = "compiled-kernels";
    dontFixup = true;
    build = ''
      mkdir -p $out/lib
      cat > cubin.s <<'END'
      .section .text.k,"ax",%progbits
      .zero 300000
      .section .note.nv.tkinfo,"",%note
      .4byte 12, 2f - 1f, 2000
      .asciz "NVIDIA Corp"
      1: .ascii "-m 64 -L ${compiler}/lib\0"
      2:
      END
      $CC -c -o cubin.o cubin.s
      cat > kernels.s <<'END'
      .macro entry arch
        .2byte 2, 0x101
        .4byte 64
        .8byte 5f - 4f
        .4byte 0, 0
        .2byte 0, 8
        .4byte \arch, 0, 0
        .8byte 0x11, 0, 0
        4: .incbin "cubin.o"
        .balign 8
        5:
      .endm
      .section .nv_fatbin,"a",%progbits
      .balign 8
      .4byte 0xBA55ED50
      .2byte 1, 16
      .8byte 9f - 1f
      1:
      entry 80
      entry 90
      9:
      END
      $CC -shared -nostdlib -o $out/lib/libkernels.so kernels.s
    '';
  };
  kernels =
    args:
    package (
      {
        pname = "kernels";
        nativeBuildInputs = [ set.cudaRunpathHook ];
        cudaCapabilities = [ "9.0" ];
        build = ''
          mkdir -p $out/lib
          cp ${compiled}/lib/libkernels.so $out/lib
          chmod u+w $out/lib/libkernels.so
        '';
      }
      // args
    );
  # Nix finds a reference by the path's hash in a file's bytes.
  mentions = what: answer: kernels: ''
    same "whether the compiler is mentioned, ${what}" "$(
      if grep -qF ${builtins.substring 0 32 (baseNameOf (builtins.unsafeDiscardStringContext compiler))} \
        ${kernels}/lib/libkernels.so; then echo yes; else echo no; fi
    )" ${answer}
  '';
  architectures = kernels: "$(runpath gpu ${kernels}/lib/libkernels.so | tr -s ' ')";
in
{
  thin = check "thin" (
    (
      let
        plain = kernels { };
        thin = kernels { cudaThin = true; };
        cut = kernels {
          cudaThin = true;
          cudaThinCut = true;
        };
        blank = kernels { cudaBlankOptions = true; };
      in
      ''
        contains "plain" "${architectures plain}" "sm_80 cubin"
        ${mentions "plain" "yes" plain}
        contains "thin" "${architectures thin}" "libkernels.so, thinned for 9.0"
        same "length" "$(stat -c %s ${thin}/lib/libkernels.so)" "$(stat -c %s ${plain}/lib/libkernels.so)"
        contains "cut" "${architectures cut}" "libkernels.so, thinned for 9.0"
        same "cut: it is shorter" "$(($(stat -c %s ${cut}/lib/libkernels.so) + 200000 < $(stat -c %s ${plain}/lib/libkernels.so)))" 1
        ${mentions "thin alone" "yes" thin}
        contains "blank" "${architectures blank}" "sm_80 cubin"
        ${mentions "blank" "no" blank}
        contains "switched off" "${
          architectures (kernels {
            cudaThin = true;
            dontThinCuda = true;
          })
        }" "sm_80 cubin"
      ''
    )
    + inEachMode (
      mode:
      let
        both = kernels (
          mode
          // {
            cudaThin = true;
            cudaBlankOptions = true;
            cudaRunpathCheckCapabilities = true;
          }
        );
      in
      ''
        contains "both" "${architectures both}" "libkernels.so, thinned for 9.0"
        ${mentions "both" "no" both}
        contains "its own list" "${
          architectures (
            kernels (
              mode
              // {
                cudaThin = true;
                cudaCapabilities = [
                  "8.0"
                  "9.0"
                ];
              }
            )
          )
        }" "sm_80 cubin"
      ''
    )
    # The list of the CUDA set comes with the hooks that need it, not with cudaRunpathHook.
    + inEachMode (mode: ''
      contains "its hook" "${
        architectures (
          kernels (
            mode
            // {
              nativeBuildInputs = [ set.thinCuda ];
              cudaCapabilities = null;
            }
          )
        )
      }" "libkernels.so, thinned for 9.0"
      contains "the check's list" "${
        architectures (
          kernels (
            mode
            // {
              nativeBuildInputs = [
                set.cudaRunpathHook
                set.cudaCapabilitiesCheck
              ];
              cudaCapabilities = null;
              cudaThin = true;
            }
          )
        )
      }" "libkernels.so, thinned for 9.0"
      contains "no list" "$(< ${
        logOfSuccess (
          kernels (
            mode
            // {
              nativeBuildInputs = [ (ours.hooksFor { }).thinCuda ];
              cudaCapabilities = null;
            }
          )
        )
      })" "nothing to do"
      contains "no list of any hook" "$(< ${
        logOfFailure (
          kernels (
            mode
            // {
              cudaCapabilities = null;
              cudaThin = true;
            }
          )
        )
      })" "cudaThin: for which GPUs? Add a line to the package, such as cudaCapabilities ="
      contains "an empty list" "${
        architectures (
          kernels (
            mode
            // {
              cudaCapabilities = [ ];
              cudaThin = true;
            }
          )
        )
      }" "sm_80 cubin"
    '')
  );
}
