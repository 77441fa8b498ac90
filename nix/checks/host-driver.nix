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

  # What a module gives for these settings, without the module system.
  configOf =
    module: settings:
    (module {
      config = settings;
      inherit pkgs;
      lib = lib // {
        mkIf = condition: value: if condition then value else { };
      };
    }).config;
  home =
    packages:
    configOf flake.homeManagerModules.default { programs.hostDriver = { inherit packages; }; };
  system =
    enable: configOf flake.systemManagerModules.default { services.hostDriver = { inherit enable; }; };
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
    same "Home Manager, without packages" '${toString (builtins.attrNames (home [ ]))}' ""
    same "Home Manager" '${toString (home [ tool ]).home.packages}' '${hostDriver} ${wrapped}'
    same "system-manager, off" '${toString (builtins.attrNames (system false))}' ""
    same "system-manager" '${(system true).systemd.services.hostDriver.serviceConfig.ExecStart}' \
      '${hostDriver}/bin/hostDriver install'
    same "the path unit starts the service of its name" \
      '${toString (builtins.attrNames (system true).systemd.paths)}' \
      '${toString (builtins.attrNames (system true).systemd.services)}'
  '';
}
