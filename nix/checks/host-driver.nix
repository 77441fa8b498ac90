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
      mkdir -p $out/bin $out/share/doc $dev
      printf '#!/bin/sh\necho "tool: $*"\n' > $out/bin/tool
      cp $out/bin/tool "$out/bin/with space"
      chmod +x $out/bin/*
      echo data > $out/bin/data
      echo manual > $out/share/doc/manual
    '';
  };
  wrapped = flake.lib.wrapWithHostDriver tool;

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
  '';
}
