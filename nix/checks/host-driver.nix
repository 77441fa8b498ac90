# hostDriver in Nix: the wrapper and the two modules.
support: flake:
let
  inherit (support)
    check
    lib
    ours
    package
    pkgs
    ;
  hostDriver = ours.hostDriver;

  tool = package {
    pname = "tool";
    outputs = [
      "out"
      "dev"
    ];
    meta.mainProgram = "tool";
    build = ''
      mkdir -p $out/bin $out/share/doc $dev/include
      mkdir -p $out/share/applications $out/share/dbus-1/services $out/lib/systemd/user
      echo "Exec=$out/bin/tool --gui" > $out/share/applications/tool.desktop
      echo "Exec=other" > $out/share/applications/other.desktop
      echo "Exec=$out/bin/tool --bus" > $out/share/dbus-1/services/org.tool.service
      # stdenv moves these to share/systemd/user and leaves a link to it.
      echo "ExecStart=$out/bin/tool" > $out/lib/systemd/user/tool.service
      ln -s tool.service $out/lib/systemd/user/alias.service
      # As this one is left by move-sbin.
      mkdir $out/sbin
      printf '#!/bin/sh\necho daemon\n' > $out/sbin/daemon
      chmod +x $out/sbin/daemon
      ln -s ../applications/tool.desktop $out/share/doc/link.desktop
      echo header > $dev/include/tool.h
      printf '#!/bin/sh\necho "tool: $*"\n' > $out/bin/tool
      cp $out/bin/tool "$out/bin/with space"
      chmod +x $out/bin/*
      echo data > $out/bin/data
      echo manual > $out/share/doc/manual
    '';
  };
  wrapped = flake.lib.wrapWithHostDriver tool;

  # Programs in an output of their own, what starts them in another, and no mainProgram.
  split = package {
    pname = "split";
    outputs = [
      "out"
      "bin"
      "man"
    ];
    build = ''
      mkdir -p $out/share/applications $out/lib $bin/bin $man/share/man/man1
      printf '#!/bin/sh\n' > $bin/bin/split
      chmod +x $bin/bin/split
      echo "Exec=$bin/bin/split" > $out/share/applications/split.desktop
      echo manual > $man/share/man/man1/split.1
    '';
  };
  wrappedSplit = flake.lib.wrapWithHostDriver split;

  # What buildEnv makes of packages of which one alone has a directory, and more links.
  linked = package {
    pname = "linked";
    outputs = [
      "out"
      "bin"
    ];
    dontFixup = true;
    build = ''
      mkdir -p $out/lib/systemd $out/libexec $bin/bin $bin/lib/more
      ln -s ${tool}/bin $out/bin
      ln -s ${tool}/share $out/share
      ln -s ${tool}/lib/systemd/user $out/lib/systemd/user
      ln -s ${tool}/share/doc $out/lib/more
      ln -s $out/lib $out/lib64
      ln -s . $out/usr
      ln -s nowhere $out/lib/dangling
      printf '#!/bin/sh\n' > $out/libexec/helper
      chmod +x $out/libexec/helper
      ln -s $out/libexec/helper $bin/bin/helper
      ln -s helper $bin/bin/called-otherwise
      echo more > $bin/lib/more/more
    '';
  };
  wrappedLinked = flake.lib.wrapWithHostDriver linked;

  # What a module makes of these settings, in a system that knows these options.
  evaluate =
    options: module: settings:
    (lib.evalModules {
      modules = [
        { inherit options; }
        module
        # As where two modules import it.
        module
        settings
      ];
      specialArgs = { inherit pkgs; };
    }).config;
  packages = lib.mkOption {
    type = lib.types.listOf lib.types.package;
    default = [ ];
  };
  units = lib.mkOption {
    type = lib.types.attrsOf lib.types.raw;
    default = { };
  };
  home = evaluate { home = { inherit packages; }; } flake.homeModules.default;
  system = evaluate {
    environment.systemPackages = packages;
    systemd.services = units;
    systemd.paths = units;
  } flake.systemManagerModules.default;
  # As nix-system-graphics has them.
  withGraphics = evaluate {
    environment.systemPackages = packages;
    systemd.services = units;
    systemd.paths = units;
    system-graphics.enable = lib.mkEnableOption "graphics";
    system-graphics.extraPackages = packages;
  } flake.systemManagerModules.default;
  beside = withGraphics {
    services.hostDriver.enable = true;
    system-graphics.enable = true;
  };
  off = system { };
  on = system { services.hostDriver.enable = true; };
  sandboxed = system {
    services.hostDriver.enable = true;
    services.hostDriver.sandbox = true;
  };
in
{
  wrapWithHostDriver = check "wrap-with-host-driver" ''
    for program in tool "with space"; do
      text=$(< "${wrapped}/bin/$program")
      printf -v line 'exec %q run -- %q "$@"' ${hostDriver}/bin/hostDriver "${tool}/bin/$program"
      contains "$program" "$text" "$line"
      holds "$program can be started" test -x "${wrapped}/bin/$program"
    done
    same "what is no program" "$(readlink ${wrapped}/bin/data)" ${tool}/bin/data
    same "the rest" "$(< ${wrapped}/share/doc/manual)" manual
    same "main program" "${lib.getExe wrapped}" ${wrapped}/bin/tool
    same "desktop entry" "$(< ${wrapped}/share/applications/tool.desktop)" "Exec=${wrapped}/bin/tool --gui"
    same "another desktop entry" "$(readlink ${wrapped}/share/applications/other.desktop)" ${tool}/share/applications/other.desktop
    same "D-Bus service" "$(< ${wrapped}/share/dbus-1/services/org.tool.service)" "Exec=${wrapped}/bin/tool --bus"
    for unit in lib/systemd/user/tool.service share/systemd/user/tool.service lib/systemd/user/alias.service; do
      same "systemd unit $unit" "$(< ${wrapped}/$unit)" "ExecStart=${wrapped}/bin/tool"
    done
    same "the alias" "$(readlink -f ${wrapped}/lib/systemd/user/alias.service)" ${wrapped}/share/systemd/user/tool.service
    same "the package's own unit" "$(< ${tool}/lib/systemd/user/tool.service)" "ExecStart=${tool}/bin/tool"
    same "where stdenv has moved it" "$(readlink -f ${tool}/lib/systemd/user/tool.service)" ${tool}/share/systemd/user/tool.service
    same "a link to a desktop entry" "$(< ${wrapped}/share/doc/link.desktop)" "Exec=${wrapped}/bin/tool --gui"
    contains "a daemon" "$(< ${wrapped}/sbin/daemon)" "run -- ${tool}/bin/daemon"
    same "directories that are links" "$(readlink -f ${wrapped}/sbin ${wrapped}/lib/systemd/user | tr '\n' ' ')" \
      "${wrapped}/bin ${wrapped}/share/systemd/user "

    for program in tool "with space" helper called-otherwise; do
      contains "$program, through links" "$(< "${wrappedLinked}/bin/$program")" "${hostDriver}/bin/hostDriver run -- "
    done
    contains "a link to a program keeps its name" "$(< ${wrappedLinked}/bin/called-otherwise)" "${linked.bin}/bin/called-otherwise"
    same "desktop entry, through links" "$(< ${wrappedLinked}/share/applications/tool.desktop)" "Exec=${wrappedLinked}/bin/tool --gui"
    same "D-Bus service, through links" "$(< ${wrappedLinked}/share/dbus-1/services/org.tool.service)" "Exec=${wrappedLinked}/bin/tool --bus"
    same "systemd unit, through links" "$(< ${wrappedLinked}/lib/systemd/user/tool.service)" "ExecStart=${wrappedLinked}/bin/tool"
    same "directories of two outputs" "$(< ${wrappedLinked}/lib/more/manual) $(< ${wrappedLinked}/lib/more/more)" "manual more"
    same "lib64" "$(readlink -f ${wrappedLinked}/lib64 ${wrappedLinked}/usr/lib | sort -u)" ${wrappedLinked}/lib
    same "nothing of the tool is changed" "$(cd ${tool} && grep -rhE '^(Exec|ExecStart)=' share lib | sort -u)" \
      "$(printf '%s\n' "Exec=${tool}/bin/tool --bus" "Exec=${tool}/bin/tool --gui" "Exec=other" "ExecStart=${tool}/bin/tool" | sort)"
    same "nothing is added to it" "$(cd ${tool} && find . -newer bin/tool -type f)" ""
    same "name and version" "${wrapped.pname} ${wrapped.version}" "${tool.pname} ${tool.version}"
    same "other outputs" "${toString wrapped.outputs} ${wrapped.dev}" "out dev ${tool.dev}"
    same "main program of a package that names none" "${lib.getExe wrappedSplit}" ${wrappedSplit}/bin/split
    holds "it can be started" test -x ${lib.getExe wrappedSplit}
    contains "it" "$(< ${lib.getExe wrappedSplit})" "run -- ${split.bin}/bin/split"
    same "its desktop entry" "$(< ${wrappedSplit}/share/applications/split.desktop)" "Exec=${wrappedSplit}/bin/split"
    same "its other outputs" "${toString wrappedSplit.outputs} ${wrappedSplit.man}" "out man ${split.man}"
    same "what a profile gets of it" "${toString wrappedSplit.meta.outputsToInstall}" "out man"
    same "what a profile gets of the first" "${toString wrapped.meta.outputsToInstall}" out
    # Whether there is a driver here or not, it is hostDriver that starts the program.
    contains "what is started" "$(HOME=$PWD ${wrapped}/bin/tool a 'b c' 2>&1 || true)" \
      "$(HOME=$PWD ${hostDriver}/bin/hostDriver run -- ${tool}/bin/tool a 'b c' 2>&1 || true)"
  '';

  gpuImage =
    let
      image = flake.lib.gpuImage pkgs.stdenv.hostPlatform.system {
        name = "tool";
        config = {
          Entrypoint = [ "${tool}/bin/tool" ];
          Cmd = [ "a" ];
          Env = [ "NVIDIA_VISIBLE_DEVICES=0" ];
        };
      };
      plain = flake.lib.gpuImage pkgs.stdenv.hostPlatform.system { name = "plain"; };
    in
    check "gpu-image" ''
      same "the image's own entrypoint is started by hostDriver" "${toString image.config.Entrypoint}" "${hostDriver}/bin/hostDriver run -- ${tool}/bin/tool"
      same "what else it has" "${image.name} ${toString image.config.Cmd}" "tool a"
      same "its environment" "${toString image.config.Env}" "NVIDIA_DRIVER_CAPABILITIES=all NVIDIA_VISIBLE_DEVICES=0"
      same "an image without a configuration" "${plain.name} ${toString plain.config.Entrypoint}" "plain ${hostDriver}/bin/hostDriver run --"
      contains "it starts what it is given" "$(HOME=$PWD ${toString image.config.Entrypoint} b 2>&1 || true)" \
        "$(HOME=$PWD ${hostDriver}/bin/hostDriver run -- ${tool}/bin/tool b 2>&1 || true)"
    '';

  # An image as dockerTools makes it, of which only what is thinned is looked at: tests/thin has the rest.
  thinImage =
    let
      kernels = package {
        pname = "kernels";
        build = ''
          mkdir -p $out/lib
          cat > code.s <<'END'
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
          $CC -shared -nostdlib -o $out/lib/libkernels.so code.s
        '';
      };
      image =
        (pkgs.runCommand "image.tar.gz" { } ''
          mkdir -p layer/nix/store
          cp -r ${kernels}/lib layer/nix/store/kernels
          tar --sort=name --owner=0 --group=0 --mtime=@1 -C layer -cf layer.tar nix
          layer=$(sha256sum < layer.tar | cut -d ' ' -f 1)
          mkdir -p image/$layer
          mv layer.tar image/$layer
          cd image
          printf '{"config":{},"rootfs":{"diff_ids":["sha256:%s"]}}' $layer > config
          config=$(sha256sum < config | cut -d ' ' -f 1).json
          mv config $config
          printf '[{"Config":"%s","RepoTags":["tool:1"],"Layers":["%s/layer.tar"]}]' $config $layer > manifest.json
          tar -czf $out *
        '')
        // {
          imageName = "registry.example/tool";
          imageTag = "1";
        };
      streamed =
        pkgs.runCommand "stream-tool" { } ''
          printf '#!%s\nexec gzip -dc %s\n' ${pkgs.stdenv.shell} ${image} > $out
          chmod +x $out
        ''
        // {
          imageName = "tool";
        };
      thin =
        image:
        flake.lib.thinImage {
          inherit image;
          gpus = [ "9.0" ];
        };
    in
    check "thin-image" ''
      for image in ${thin image} ${thin streamed}; do
        mkdir image layer
        tar -C image -xf $image
        tar -C layer -xf image/*/layer.tar
        contains "the library" "$(runpath gpu layer/nix/store/kernels/libkernels.so | tr -s ' ')" "thinned for 9.0"
        contains "the label" "$(cat image/*.json)" '"cuda-runpath.thinned-for": "9.0"'
        same "the layer's name" image/$(sha256sum < image/*/layer.tar | cut -d ' ' -f 1)/layer.tar "$(echo image/*/layer.tar)"
        chmod -R u+w image layer
        rm -r image layer
      done
      same "its name" "${(thin image).imageName}:${(thin image).imageTag} ${(thin image).name} ${(thin streamed).name}" \
        "registry.example/tool:1 registry.example-tool-thinned.tar.gz tool-thinned.tar"
    '';

  hostDriverModules = check "host-driver-modules" ''
    same "Home Manager, without packages" '${toString (home { }).home.packages}' ""
    same "Home Manager" \
      '${
        toString (home { programs.hostDriver.packages = [ tool ]; }).home.packages
      }' '${hostDriver} ${wrapped}'
    same "system-manager, off" \
      '${
        toString (
          off.environment.systemPackages
          ++ builtins.attrNames off.systemd.services
          ++ builtins.attrNames off.systemd.paths
        )
      }' ""
    same "system-manager" '${toString on.environment.systemPackages}' ${hostDriver}
    same "the service" '${on.systemd.services.hostDriver.serviceConfig.ExecStart}' \
      '${hostDriver}/bin/hostDriver install'
    holds "the tool knows these arguments" ${on.systemd.services.hostDriver.serviceConfig.ExecStart} --help
    same "the path unit starts the service of its name" \
      '${toString (builtins.attrNames on.systemd.paths)}' '${toString (builtins.attrNames on.systemd.services)}'
    same "beside nix-system-graphics" \
      '${beside.systemd.services.hostDriver.serviceConfig.ExecStart} ${toString beside.system-graphics.extraPackages}' \
      '${hostDriver}/bin/hostDriver install --beside ${ours.hostDriverLinks}'
    same "nix-system-graphics, not enabled" \
      '${
        toString
          (withGraphics { services.hostDriver.enable = true; }).systemd.services.hostDriver.serviceConfig.ExecStart
      }' '${hostDriver}/bin/hostDriver install'
    same "its links" "$(readlink ${ours.hostDriverLinks}/{lib/libcuda.so.1,share/glvnd/egl_vendor.d/10_nvidia.json} | paste -sd ' ')" \
      "/run/hostDriver/lib/libcuda.so.1 /run/hostDriver/share/glvnd/egl_vendor.d/10_nvidia.json"
    same "the GPU in the sandbox, where something else provides the driver" \
      '${
        let
          alone = system { services.hostDriver.sandbox = true; };
        in
        toString (builtins.attrNames alone.systemd.services ++ builtins.attrNames alone.systemd.paths)
      }' "hostDriver-sandbox"
    same "the GPU in the sandbox" '${toString (builtins.attrNames sandboxed.systemd.services)}' "hostDriver hostDriver-sandbox"
    line='${sandboxed.systemd.services.hostDriver-sandbox.serviceConfig.ExecStart}'
    holds "the tool knows these arguments too" $line --conf "$PWD/nix.conf" --dry-run
    said=$($line --conf "$PWD/nix.conf" --dry-run)
    contains "nix.conf gets the hook" "$said" "pre-build-hook = $PWD/hostDriver-sandbox"
    contains "the features are added" "$said" "extra-system-features = cuda gpu nvidia-gpu opengl"
    contains "the hook calls the tool" "$said" "exec ${hostDriver}/bin/hostDriver sandbox"
  '';
}
