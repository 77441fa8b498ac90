# The GPUs that a CUDA set builds for, in the notation of cudaCapabilitiesCheck: "8.0 9.0+PTX".
# In nixpkgs they are in flags, before 25.05 in cudaFlags; PTX is asked for of the newest one
# (cudaForwardCompat). "": a set that does not say, or that has none for this platform.
{ lib, cudaPackages }:
let
  flags = cudaPackages.flags or cudaPackages.cudaFlags or { };
  asked = flags.cudaCapabilities or [ ];
  forward = flags.cudaForwardCompat or flags.enableForwardCompat or true;
  list =
    if asked == [ ] then "" else toString asked + lib.optionalString forward "+PTX";
  result = builtins.tryEval list;
in
if result.success then result.value else ""
