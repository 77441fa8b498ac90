# The manifests of a repository's packages at a commit, for `nix run .#diff-manifests`. `set` is a
# file with a function of the repository at that commit and of this flake, which returns what
# lib.manifest does.
{
  set,
  repository,
  commit,
  nixpkgs,
  tools,
  lib,
}:
import set {
  source = builtins.fetchGit {
    url = repository;
    rev = commit;
    # A commit that no branch leads to, as one of a pull request.
    allRefs = true;
    # As CI checks out. Of a clone that is whole it takes as much.
    shallow = true;
  };
  cuda-runpath.lib = import lib {
    pkgsFor = system: import nixpkgs { inherit system; };
    # The program that is there already, whoever builds.
    packagesFor = _: { cuda-runpath = builtins.storePath tools; };
    overlays = { };
  };
}
