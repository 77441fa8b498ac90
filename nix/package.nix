# The binaries, static, with their man pages and completions. What the hooks call is in
# the output "tools" and hostDriver in one of its own, both linked from $out/bin: a build
# that uses hooks fetches their tools and nothing else. Only the output "patchelf" has a
# program of that name, so that nobody shadows the real one by accident.
#
# This is the text of pkgs/by-name/cu/cuda-runpath/package.nix too (upstream/README.md), so it
# reads nothing beside it; ./default.nix gives it the source that it lies in.
{
  lib,
  stdenv,
  buildGoModule,
  fetchFromGitHub,
  cudaRunpathHook,
  installShellFiles,
  jq,
  nix-update-script,
  nukeReferences,
  versionCheckHook,
}:
buildGoModule (finalAttrs: {
  pname = "cuda-runpath";
  version = "1.0.0";

  __structuredAttrs = true;
  strictDeps = true;

  src = fetchFromGitHub {
    owner = "cuda-runpath";
    repo = "cuda-runpath";
    tag = "v${finalAttrs.version}";
    hash = lib.fakeHash;
  };

  # The tests need more modules than the programs do. Not proxyVendor: its hash is of the .info
  # files too, which go.sum does not name and each release of Go writes its own way
  # (NixOS/nixpkgs 300640); and the tests' modules would be fetched, 50 MB in all.
  postPatch = ''
    rm -rf tests
    find . -name '*_test.go' -delete
  '';

  # `nix run .#update-vendor-hash` after a change of go.mod or go.sum.
  vendorHash = "sha256-+q6fBhBOfS26DUqOVsH5zESwZtfxi7KGIyEJEuutpZE=";

  outputs = [
    "out"
    "man"
    "tools"
    "hostDriver"
    "autoPatchelf"
    "patchelf"
  ];

  # hostDriver runs as root, so it is a program of its own. A string: of a list, nixos-25.11's
  # buildGoModule builds only the first with structured attributes (NixOS/nixpkgs 519801).
  subPackages = "cmd/runpath cmd/hostDriver";
  # urfave/cli's own man pages, which are not used, need a Markdown parser, which takes a quarter of the start.
  tags = [ "urfave_cli_no_docs" ];
  env.CGO_ENABLED = "0";
  ldflags = [
    "-s"
    "-w"
    # The module's name is no address, so that the repository can move without a change of every import.
    "-X cuda-runpath/pkg/cli/command.Version=${finalAttrs.version}"
  ];

  nativeBuildInputs = [
    installShellFiles
    jq
    nukeReferences
  ];
  # The tests run compilers, editors and a Nix store (tests/packages) and take minutes; `tests/run` is their place.
  doCheck = false;

  # Each program is what it is called, and has this version.
  doInstallCheck = true;
  nativeInstallCheckInputs = [ versionCheckHook ];
  postInstallCheck = ''
    for program in $out/bin/*; do
      if [[ $("$program" --version) != "''${program##*/} version $version" ]]; then
        echo "$program --version says: $("$program" --version)" >&2
        exit 1
      fi
    done
  '';

  passthru = {
    # hooksFor SET: the hooks of a CUDA set.
    inherit (cudaRunpathHook) hooksFor tests;
    updateScript = nix-update-script { };
  };

  # The man pages and the completions are printed by the programs, which in a cross build are
  # built for the machine that builds too.
  postBuild =
    if stdenv.buildPlatform.canExecute stdenv.hostPlatform then
      "cp -r $GOPATH/bin documents"
    else
      ''
        mkdir documents
        env -u GOOS -u GOARCH CGO_ENABLED=0 go build -o documents/ \
          -ldflags '-X cuda-runpath/pkg/cli/command.Version=${finalAttrs.version}' \
          ./cmd/runpath ./cmd/hostDriver
      '';

  postInstall = ''
    # One program, installed under all of these names.
    mapfile -t names < <(jq -r '.[] | select(.install != false).name' cmd/tools.json)
    for command in "''${names[@]}"; do
      if [[ ! -e documents/$command ]]; then ln -s runpath documents/$command; fi
    done
    for command in "''${names[@]}" hostDriver; do
      for page in "" $(documents/$command --generate-bash-completion); do
        documents/$command --man $page > "documents/$command''${page:+-$page}.1"
        installManPage "documents/$command''${page:+-$page}.1"
      done
      for shell in bash fish zsh; do
        documents/$command --completion $shell > "documents/$command.$shell"
      done
      installShellCompletion --cmd "$command" \
        --bash "documents/$command.bash" \
        --fish "documents/$command.fish" \
        --zsh "documents/$command.zsh"
    done

    mkdir -p $tools/bin $hostDriver/bin
    # In a cross build Go has put them into a directory of the platform's.
    mv "$(find $out/bin -name runpath)" $tools/bin/runpath
    mv "$(find $out/bin -name hostDriver)" $hostDriver/bin/hostDriver
    for command in "''${names[@]}"; do
      if [[ ! -e $tools/bin/$command ]]; then ln -s runpath $tools/bin/$command; fi
      ln -s $tools/bin/$command $out/bin/$command
    done
    ln -s $hostDriver/bin/hostDriver $out/bin/hostDriver
    # nixpkgs' name of the program, for builds that use our autoPatchelfHook: nixpkgs' own hook calls
    # what has that name in PATH.
    mkdir -p $autoPatchelf/bin
    ln -s $tools/bin/runpath $autoPatchelf/bin/auto-patchelf

    # A copy: `readlink -f` makes another name of a link's, and under that one the program
    # is another one.
    mkdir -p $patchelf/bin
    cp $tools/bin/runpath $patchelf/bin/patchelf
  '';

  # nixpkgs' Go writes where its time zone data are into every program. Ours need
  # nothing of the store.
  postFixup = ''
    for output in $(getAllOutputNames); do
      find "''${!output}" -type f -path '*/bin/*' -exec nuke-refs {} +
    done
  '';

  meta = {
    description = "Puts the run paths of CUDA programs and libraries right";
    longDescription = ''
      Replaces link-time stubs in run paths by the host's driver directory, adds that
      directory and cuda_compat's in one normal form that does not depend on the order
      in which the tools run, and finds run paths where the order decides which library
      is loaded. The edit happens in place, in a few writes, also in very large files.
    '';
    homepage = "https://github.com/cuda-runpath/cuda-runpath";
    changelog = "${finalAttrs.meta.homepage}/blob/v${finalAttrs.version}/CHANGELOG.md";
    license = lib.licenses.mit;
    mainProgram = "runpath";
    platforms = lib.platforms.linux;
    # Whoever opens the pull request to nixpkgs (upstream/README.md).
    maintainers = [ ];
  };
})
