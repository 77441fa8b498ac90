# `nix run .#NAME -- …`: each binary, and update-vendor-hash.
{ pkgs, cuda-runpath }:
let
  inherit (pkgs) lib;
  app = program: description: {
    type = "app";
    inherit program;
    meta = { inherit description; };
  };

  installed = map (tool: tool.name) (
    builtins.filter (tool: tool.install or true) (
      builtins.fromJSON (builtins.readFile ../cmd/tools.json)
    )
  );

  # The NAR hash of what `go mod vendor` writes for the package's own source as it is
  # now (with its tests, the tree needs more modules than the package does).
  update-vendor-hash = pkgs.writeShellApplication {
    name = "update-vendor-hash";
    runtimeInputs = [
      pkgs.coreutils
      pkgs.go
      pkgs.nix
      pkgs.gnused
    ];
    text = ''
      cd "''${1:-.}"
      if [[ ! -f go.sum || ! -f nix/package.nix ]]; then
        echo "update-vendor-hash: run it in this repository's root, or name the root" >&2
        exit 2
      fi
      work=$(mktemp -d)
      trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
      cp -r ${cuda-runpath.src} "$work/source"
      chmod -R u+w "$work/source"
      (cd "$work/source" && go mod vendor)
      hash=$(nix --extra-experimental-features nix-command hash path "$work/source/vendor")
      sed -i "s|vendorHash = \".*\";|vendorHash = \"$hash\";|" nix/package.nix
      echo "vendorHash = $hash"
    '';
  };
in
lib.genAttrs (installed ++ [ "hostDriver" ]) (name: app "${cuda-runpath}/bin/${name}" "Runs ${name}")
// {
  default = app "${cuda-runpath}/bin/runpath" "Shows and edits run paths";
  update-vendor-hash = app "${update-vendor-hash}/bin/update-vendor-hash" "Writes the hash of the Go modules into nix/package.nix";
}
