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
      echo "ExecStart=$out/bin/tool" > $out/lib/systemd/user/tool.service
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

  # What a module makes of these settings, in a system that knows these options.
  evaluate =
    options: module: settings:
    (lib.evalModules {
      modules = [
        { inherit options; }
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
    same "systemd unit" "$(< ${wrapped}/lib/systemd/user/tool.service)" "ExecStart=${wrapped}/bin/tool"
    same "name and version" "${wrapped.pname} ${wrapped.version}" "${tool.pname} ${tool.version}"
    same "other outputs" "${toString wrapped.outputs} ${wrapped.dev}" "out dev ${tool.dev}"
    same "main program of a package that names none" "${lib.getExe wrappedSplit}" ${wrappedSplit}/bin/split
    holds "it can be started" test -x ${lib.getExe wrappedSplit}
    contains "it" "$(< ${lib.getExe wrappedSplit})" "run -- ${split.bin}/bin/split"
    same "its desktop entry" "$(< ${wrappedSplit}/share/applications/split.desktop)" "Exec=${wrappedSplit}/bin/split"
    same "its other outputs" "${toString wrappedSplit.outputs} ${wrappedSplit.man}" "out man ${split.man}"
    # Whether there is a driver here or not, it is hostDriver that starts the program.
    contains "what is started" "$(HOME=$PWD ${wrapped}/bin/tool a 'b c' 2>&1 || true)" \
      "$(HOME=$PWD ${hostDriver}/bin/hostDriver run -- ${tool}/bin/tool a 'b c' 2>&1 || true)"
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
    # Not links alone: what libcuda.so.1 loads by name would not be found.
    same "the service" '${on.systemd.services.hostDriver.serviceConfig.ExecStart}' \
      '${hostDriver}/bin/hostDriver install --copy'
    holds "the tool knows these arguments" ${on.systemd.services.hostDriver.serviceConfig.ExecStart} --help
    same "the path unit starts the service of its name" \
      '${toString (builtins.attrNames on.systemd.paths)}' '${toString (builtins.attrNames on.systemd.services)}'
    same "the GPU in the sandbox" '${toString (builtins.attrNames sandboxed.systemd.services)}' "hostDriver hostDriver-sandbox"
    line='${sandboxed.systemd.services.hostDriver-sandbox.serviceConfig.ExecStart}'
    holds "the tool knows these arguments too" $line --conf "$PWD/nix.conf"
    contains "nix.conf gets the hook" "$(< nix.conf)" "pre-build-hook = $PWD/hostDriver-sandbox"
    contains "the features are added" "$(< nix.conf)" "extra-system-features = cuda gpu nvidia-gpu opengl"
    contains "the hook calls the tool" "$(< hostDriver-sandbox)" "exec ${hostDriver}/bin/hostDriver sandbox"
  '';
}
