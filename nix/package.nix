# The binaries, static, with their man pages and completions. Each tool that a hook
# or a wrapper calls is an output of its own, linked from $out/bin: a build that uses
# one hook then fetches one binary.
{
  lib,
  stdenv,
  buildGoModule,
  installShellFiles,
  nukeReferences,
  # This package for the build machine, where `stdenv` cannot run its own binaries.
  native ? null,
}:
let
  root = toString ../.;
  commands = builtins.filter (name: builtins.pathExists (../cmd + "/${name}/main.go")) (
    builtins.attrNames (builtins.readDir ../cmd)
  );
  ownOutputs = [
    "stubReplace"
    "autoAddDriverRunpath"
    "addCudaCompatRunpath"
    "noRunpathAmbiguity"
    "hostDriver"
  ];

  # Only what the compiler reads: editing tests, documentation or Nix rebuilds nothing.
  sourceFilter =
    path: type:
    let
      name = baseNameOf path;
      relative = lib.removePrefix (root + "/") (toString path);
      below = directory: relative == directory || lib.hasPrefix (directory + "/") relative;
    in
    if type == "directory" then
      (below "cmd" || below "pkg") && name != "testdata"
    else
      relative == "go.mod"
      || relative == "go.sum"
      || (
        (below "cmd" || below "pkg")
        && !(lib.hasSuffix "_test.go" name)
        && !(lib.hasSuffix ".md" name)
        && !(lib.hasSuffix ".png" name)
      );

  canRun = stdenv.buildPlatform.canExecute stdenv.hostPlatform;
  runnable = if canRun then "$out" else "${native}";
in
buildGoModule {
  pname = "cuda-runpath";
  version = "0.1.0";

  src = lib.cleanSourceWith {
    src = ../.;
    filter = sourceFilter;
    name = "cuda-runpath-source";
  };

  # `nix run .#update-vendor-hash` after a change of go.mod or go.sum.
  vendorHash = "sha256-/JGxfXtptY5Co7Ia5kEVWPQ9DbR6S7e8iyhxRwasUB4=";

  outputs = [
    "out"
    "man"
  ]
  ++ ownOutputs;

  subPackages = map (name: "cmd/${name}") commands;
  env.CGO_ENABLED = "0";
  ldflags = [
    "-s"
    "-w"
    "-X cuda-runpath/pkg/cli.Version=0.1.0"
  ];

  nativeBuildInputs = [
    installShellFiles
    nukeReferences
  ];
  # The tests run the compilers and editors of tests/packages; `tests/run` is their place.
  doCheck = false;

  passthru = { inherit commands; };

  postInstall = ''
    mkdir man completion
    for command in ${toString commands}; do
      program=${runnable}/bin/$command
      "$program" --man > "man/$command.1"
      for shell in bash fish zsh; do
        "$program" --completion $shell > "completion/$command.$shell"
      done
      installManPage "man/$command.1"
      installShellCompletion --cmd "$command" \
        --bash "completion/$command.bash" \
        --fish "completion/$command.fish" \
        --zsh "completion/$command.zsh"
    done
    for tool in ${toString ownOutputs}; do
      mkdir -p "''${!tool}/bin"
      mv "$out/bin/$tool" "''${!tool}/bin/$tool"
      ln -s "''${!tool}/bin/$tool" "$out/bin/$tool"
    done
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
    license = lib.licenses.mit;
    mainProgram = "runpath";
    platforms = lib.platforms.linux;
    maintainers = [ ];
  };
}
