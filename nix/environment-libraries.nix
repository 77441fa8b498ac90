# The directories in which patch-environment looks for libraries, one a line: a file, so that a link to it keeps them
# from the garbage collector, and a walk of the tree that has the link finds no library there.
{
  flake ? null,
  pkgs ? (builtins.getFlake flake).legacyPackages.${builtins.currentSystem},
  # What wheels may need beside a C library (PEP 599), and zlib, which many need all the same. The C library is that of
  # the program that opens them.
  libraries ? builtins.filter (library: (builtins.parseDrvName library.name).name != "glibc") (
    pkgs.pythonManylinuxPackages.manylinux2014 ++ [ pkgs.zlib ]
  ),
}:
let
  inherit (pkgs) lib;
in
pkgs.writeText "patch-environment-libraries" (
  lib.concatMapStrings (library: "${lib.getLib library}/lib\n") libraries
)
