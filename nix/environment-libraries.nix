# The directories in which patch-environment looks for libraries, one a line: a file, so that a link to it keeps them
# from the garbage collector, and a walk of the tree that has the link finds no library there.
{
  flake ? null,
  pkgs ? (builtins.getFlake flake).legacyPackages.${builtins.currentSystem},
  # What wheels may need beside a C library (PEP 599), and zlib, which many need all the same. The C library is that of
  # the program that opens them. A set without nixpkgs' list has gcc's libraries at least.
  libraries ?
    let
      manylinux = builtins.tryEval pkgs.pythonManylinuxPackages.manylinux2014;
      isOther = library: (builtins.parseDrvName library.name).name != "glibc";
    in
    builtins.filter isOther (if manylinux.success then manylinux.value else [ pkgs.stdenv.cc.cc ])
    ++ [ pkgs.zlib ],
}:
let
  inherit (pkgs) lib;
in
pkgs.writeText "patch-environment-libraries" (
  lib.concatMapStrings (library: "${lib.getLib library}/lib\n") libraries
)
