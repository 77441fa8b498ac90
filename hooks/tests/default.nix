# The checks that need nothing but the hooks: cuda-runpath.tests.
support:
import ./order.nix support
// import ./outputs.nix support
// import ./settings.nix support
// import ./stubs.nix support
// import ./failure.nix support
// import ./capabilities.nix support
// import ./thin.nix support
// import ./later.nix support
