# What three pull requests to nixpkgs would hold, each in a directory to be copied over a
# checkout: README.md. The program's package, the hooks and their chapters are this
# repository's own; ./1-hooks and ./2-autoPatchelf are only in nixpkgs.
{
  pkgs,
  # Of the tagged source.
  narHash,
}:
pkgs.runCommand "nixpkgs-pull-requests"
  {
    inherit narHash;
    nativeBuildInputs = [ pkgs.jq ];
  }
  ''
    mkdir -p $out
    cp -r --no-preserve=mode ${./1-hooks} $out/1-hooks
    cp -r --no-preserve=mode ${./2-autoPatchelf} $out/2-autoPatchelf
    cd $out/1-hooks
    mkdir -p pkgs/by-name/cu/cuda-runpath doc/hooks
    sed -e '/^# This is the text of/,/^{/ { /^{/!d }' -e '/^#$/d' -e '/update-vendor-hash/d' \
      -e "s|lib.fakeHash|\"$narHash\"|" ${../package.nix} > pkgs/by-name/cu/cuda-runpath/package.nix
    cp -r --no-preserve=mode ${../../hooks} pkgs/by-name/cu/cudaRunpathHook
    cp --no-preserve=mode ${../hooks.section.md} doc/hooks/cuda-runpath.section.md
    mkdir -p $out/3-fixupElf/pkgs/by-name/fi $out/3-fixupElf/doc/hooks
    mv pkgs/by-name/cu/cudaRunpathHook/fixupElf $out/3-fixupElf/pkgs/by-name/fi/fixupElfHook
    mv $out/3-fixupElf/pkgs/by-name/fi/fixupElfHook/fixup-elf.section.md $out/3-fixupElf/doc/hooks
    # Every heading and example is an entry of doc/redirects.json.
    for chapter in $out/*/doc/hooks/*; do
      grep -o '{[^}]*#[a-z-]*}' "$chapter" | tr -d '{}' | sed 's/.*#//' |
        jq -R '{(.): ["index.html#\(.)"]}' | jq -s add > "''${chapter%/*}/../redirects.json"
    done
  ''
