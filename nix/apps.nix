# `nix run .#NAME -- …`: each binary, and what only Nix can do.
{
  pkgs,
  cuda-runpath,
  patchEnvironment,
}:
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

  # What differs between the packages of a repository at two commits.
  diff-manifests = pkgs.writeShellApplication {
    name = "diff-manifests";
    runtimeInputs = [
      pkgs.coreutils
      pkgs.git
      pkgs.nix
    ];
    text = ''
      usage="diff-manifests [--set FILE] REV1 REV2 [FLAG of runpath manifest --diff]..."
      set=manifests.nix
      if [[ ''${1-} == --set ]]; then
        set=''${2-}
        shift 2 || set=
      fi
      if [[ ''${1-} == -h || ''${1-} == --help ]]; then
        echo "usage: $usage"
        echo "Says what differs between the packages of two commits of the git repository that you are in."
        echo "FILE (manifests.nix) says which packages, as a function of source, the repository at a commit, and cuda-runpath, this"
        echo "flake: { source, cuda-runpath }: cuda-runpath.lib.manifest { packages = ...; }"
        exit
      fi
      if (($# < 2)) || [[ $1 == -* || $2 == -* || ! -f $set ]]; then
        echo "usage: $usage" >&2
        if [[ ! -f $set ]]; then
          echo "diff-manifests: ''${set:-FILE}: there is no such file: it says which packages, as a function of source, the" >&2
          echo "repository at a commit, and cuda-runpath, this flake: { source, cuda-runpath }: cuda-runpath.lib.manifest { packages = ...; }" >&2
        fi
        exit 2
      fi
      set=$(realpath "$set")
      repository=$(git rev-parse --show-toplevel)
      made=()
      for revision in "$1" "$2"; do
        commit=$(git rev-parse --verify --quiet "$revision^{commit}") || {
          shallow=
          if [[ $(git rev-parse --is-shallow-repository) == true ]]; then
            shallow=", a shallow clone: git fetch --unshallow, or in CI actions/checkout with fetch-depth: 0"
          fi
          echo "diff-manifests: $revision: there is no such commit in $repository$shallow" >&2
          exit 2
        }
        echo "$revision: building the manifests" >&2
        made+=("$(nix-build --no-out-link ${./manifests-of.nix} --argstr set "$set" --argstr repository "$repository" --argstr commit "$commit" \
          --argstr nixpkgs ${toString pkgs.path} --argstr tools ${cuda-runpath} --argstr lib ${./lib.nix})/manifest.json")
      done
      shift 2
      exec ${cuda-runpath}/bin/runpath manifest --diff "$@" "''${made[@]}"
    '';
  };
in
lib.genAttrs (installed ++ [ "hostDriver" ]) (name: app "${cuda-runpath}/bin/${name}" "Runs ${name}")
// {
  default = app "${cuda-runpath}/bin/runpath" "Shows and edits run paths";
  diff-manifests = app "${diff-manifests}/bin/diff-manifests" "Says what differs between the packages of two commits";
  patch-environment =
    app "${patchEnvironment { inherit pkgs; }}/bin/patch-environment"
      "Makes what pip, uv or npm installed find libraries of Nix and the GPU driver";
  update-vendor-hash = app "${update-vendor-hash}/bin/update-vendor-hash" "Writes the hash of the Go modules into nix/package.nix";
}
