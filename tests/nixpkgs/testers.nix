# nixpkgs' testers, as far as the checks use them (its manual, chapter "Testers").
{ lib, pkgs }:
{
  # A build that must fail. Its output has testBuildFailure.log and .exit, and is else what
  # the build left.
  testBuildFailure =
    failing:
    let
      original = failing.drvAttrs;
    in
    failing.overrideAttrs (_: {
      args = [
        ./test-build-failure.bash
        "${pkgs.coreutils}/bin"
        original.builder
      ]
      ++ original.args;
    });

  # A program prints its package's version.
  testVersion =
    {
      package,
      command ? "${package.meta.mainProgram or package.pname} --version",
      version ? package.version,
    }:
    pkgs.runCommand "${package.name}-test-version"
      {
        nativeBuildInputs = [ package ];
        inherit version;
      }
      ''
        said=$(${command} 2>&1)
        grep -qFw -- "$version" <<< "$said" || {
          echo "version $version is not in: $said" >&2
          exit 1
        }
        touch $out
      '';

  # Two trees are the same: names, bytes and who may run what.
  testEqualContents =
    {
      assertion,
      actual,
      expected,
    }:
    pkgs.runCommand "equal-contents" { inherit assertion actual expected; } ''
      diff -r --no-dereference "$expected" "$actual" || { echo "not so: $assertion" >&2; exit 1; }
      modes() { (cd "$1" && find . -printf '%p %m\n' | sort); }
      diff <(modes "$expected") <(modes "$actual") || { echo "modes differ: $assertion" >&2; exit 1; }
      touch $out
    '';
}
