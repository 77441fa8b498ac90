# `nix fmt`: gofmt and nixfmt over the files named, else over the repository.
{ pkgs }:
pkgs.writeShellApplication {
  name = "cuda-runpath-format";
  runtimeInputs = [
    pkgs.git
    pkgs.go
    pkgs.nixfmt
  ];
  text = ''
    if (($# == 0)) || [[ $* == . ]]; then
      mapfile -t files < <(git ls-files -- '*.go' '*.nix')
      set -- "''${files[@]}"
    fi
    for file in "$@"; do
      case $file in
      *.go) gofmt -w "$file" ;;
      *.nix) nixfmt "$file" ;;
      esac
    done
  '';
}
