# For Home Manager on a host other than NixOS.
{ self }:
{
  config,
  lib,
  pkgs,
  ...
}:
{
  # Two of a configuration's modules may import it.
  key = "cuda-runpath/homeModules.default";

  options.programs.hostDriver.packages = lib.mkOption {
    type = lib.types.listOf lib.types.package;
    default = [ ];
    example = lib.literalExpression "[ pkgs.blender ]";
    description = ''
      Packages to install with the host's GPU driver: each of their programs is started
      by `hostDriver run`. `hostDriver` itself is installed too.
    '';
  };

  config = lib.mkIf (config.programs.hostDriver.packages != [ ]) {
    home.packages = [
      self.packages.${pkgs.stdenv.hostPlatform.system}.hostDriver
    ]
    ++ map self.lib.wrapWithHostDriver config.programs.hostDriver.packages;
  };
}
