# For system-manager on a host other than NixOS: /run/opengl-driver/lib holds the host's
# driver, made again at each boot and after each upgrade of the driver. Beside
# nix-system-graphics, its Mesa and the host's NVIDIA driver are there.
{ self }:
{
  config,
  lib,
  options,
  pkgs,
  ...
}:
let
  inherit (self.packages.${pkgs.stdenv.hostPlatform.system}) hostDriver hostDriverLinks;
  # nix-system-graphics owns /run/opengl-driver.
  beside = options ? system-graphics && config.system-graphics.enable;
  inherit (config.services.hostDriver) enable sandbox;
in
{
  # Two of a configuration's modules may import it.
  key = "cuda-runpath/systemManagerModules.default";

  options.services.hostDriver = {
    enable = lib.mkEnableOption "the host's GPU driver in /run/opengl-driver/lib, for programs built with Nix";
    sandbox = lib.mkEnableOption ''
      the GPU in Nix's sandbox, for builds whose requiredSystemFeatures has cuda, gpu,
      nvidia-gpu or opengl: /etc/nix/nix.conf gets a pre-build-hook and these system features
    '';
  };

  # `sandbox` alone is for hosts where something else provides the driver.
  config = lib.mkIf (enable || sandbox) ({
    environment.systemPackages = [ hostDriver ];
    systemd.services = lib.optionalAttrs enable {
      hostDriver = {
        description = "The host's GPU driver for programs built with Nix";
        # As `hostDriver tmpfiles` makes it: whatever asks for no order sees the driver that is
        # there now, not the copies of the one before.
        unitConfig = {
          DefaultDependencies = false;
          RequiresMountsFor = "${hostDriver} /var/lib/hostDriver";
          StartLimitIntervalSec = 0;
        };
        after = [
          "systemd-tmpfiles-setup.service"
          "systemd-modules-load.service"
          "local-fs.target"
        ];
        before = [
          "basic.target"
          "shutdown.target"
        ];
        conflicts = [ "shutdown.target" ];
        wantedBy = [ "system-manager.target" ];
        serviceConfig = {
          Type = "oneshot";
          TimeoutStartSec = "3min";
          ExecStart = "${hostDriver}/bin/hostDriver install${lib.optionalString beside " --beside"}";
        };
      };
    }
    // lib.optionalAttrs sandbox {
      hostDriver-sandbox = {
        description = "The GPU in Nix's sandbox, for builds that ask for it";
        before = [ "nix-daemon.service" ];
        wantedBy = [ "system-manager.target" ];
        serviceConfig = {
          Type = "oneshot";
          ExecStart = "${hostDriver}/bin/hostDriver sandbox --program ${hostDriver}/bin/hostDriver";
          # A daemon that runs already reads its configuration anew.
          ExecStartPost = "-systemctl try-restart nix-daemon.service";
        };
      };
    };
    # ldconfig writes its cache again when the driver is upgraded.
    systemd.paths = lib.optionalAttrs enable {
      hostDriver = {
        description = "Notice upgrades of the GPU driver";
        wantedBy = [ "system-manager.target" ];
        pathConfig.PathChanged = "/etc/ld.so.cache";
      };
    };
  }
  // lib.optionalAttrs (options ? system-graphics) {
    system-graphics.extraPackages = lib.optional (enable && beside) hostDriverLinks;
  });
}
