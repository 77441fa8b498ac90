# The part of nixpkgs' lib that this repository uses.
let
  inherit (builtins)
    concatStringsSep
    filter
    head
    isAttrs
    isFunction
    listToAttrs
    stringLength
    substring
    ;
in
rec {
  genAttrs =
    names: f:
    listToAttrs (
      map (name: {
        inherit name;
        value = f name;
      }) names
    );
  nameValuePair = name: value: { inherit name value; };
  mapAttrs' = f: set: listToAttrs (map (n: f n set.${n}) (builtins.attrNames set));
  mapAttrsToList = f: set: map (n: f n set.${n}) (builtins.attrNames set);
  filterAttrs =
    keep: set:
    listToAttrs (
      builtins.concatMap (n: if keep n set.${n} then [ (nameValuePair n set.${n}) ] else [ ]) (
        builtins.attrNames set
      )
    );
  optionalAttrs = condition: set: if condition then set else { };
  optional = condition: value: if condition then [ value ] else [ ];
  optionals = condition: list: if condition then list else [ ];
  optionalString = condition: text: if condition then text else "";
  concatMapStringsSep =
    sep: f: list:
    concatStringsSep sep (map f list);
  concatMapStrings = f: list: concatStringsSep "" (map f list);
  reverseList =
    list:
    let
      last = builtins.length list - 1;
    in
    builtins.genList (i: builtins.elemAt list (last - i)) (last + 1);
  take = n: list: builtins.genList (builtins.elemAt list) n;
  elem = builtins.elem;
  remove = value: filter (x: x != value);
  unique = builtins.foldl' (acc: x: if builtins.elem x acc then acc else acc ++ [ x ]) [ ];
  flatten = x: if builtins.isList x then builtins.concatMap flatten x else [ x ];

  hasPrefix = prefix: text: substring 0 (stringLength prefix) text == prefix;
  hasSuffix =
    suffix: text:
    let
      rest = stringLength text - stringLength suffix;
    in
    rest >= 0 && substring rest (-1) text == suffix;
  removePrefix =
    prefix: text: if hasPrefix prefix text then substring (stringLength prefix) (-1) text else text;
  removeSuffix =
    suffix: text:
    if hasSuffix suffix text then substring 0 (stringLength text - stringLength suffix) text else text;
  fileContents = file: removeSuffix "\n" (builtins.readFile file);
  escapeShellArg = text: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] (toString text)}'";
  escapeShellArgs = concatMapStringsSep " " escapeShellArg;
  toUpper =
    let
      lower = "abcdefghijklmnopqrstuvwxyz";
      upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
      letters = text: map (i: substring i 1 text) (builtins.genList (i: i) 26);
    in
    builtins.replaceStrings (letters lower) (letters upper);

  isDerivation = value: isAttrs value && value.type or "" == "derivation";
  getOutput =
    output: package:
    if isAttrs package && package.outputSpecified or false then
      package
    else
      package.${output} or package.out or package;
  getBin = getOutput "bin";
  getDev = getOutput "dev";
  getLib = getOutput "lib";
  getExe' = package: name: "${getBin package}/bin/${name}";
  getExe = package: getExe' package (package.meta.mainProgram or package.pname or package.name);

  cleanSourceWith =
    {
      src,
      filter ? (_: _: true),
      name ? "source",
    }:
    builtins.path {
      inherit name filter;
      path = src;
    };

  functionArgs = f: f.__functionArgs or (builtins.functionArgs f);
  isFunctor = f: isFunction f || (isAttrs f && f ? __functor);
  makeOverridable =
    f: args:
    let
      result = f args;
      more = {
        override = new: makeOverridable f (args // (if isFunction new then new args else new));
      };
    in
    if isDerivation result then
      result
      // more
      // {
        overrideAttrs = g: makeOverridable (a: (f a).overrideAttrs g) args;
      }
    else if isAttrs result then
      result // more
    else
      result;
  callPackageWith =
    scope: fileOrFunction: args:
    let
      f = if isFunctor fileOrFunction then fileOrFunction else import fileOrFunction;
      wanted = functionArgs f;
      missing = filter (n: !(wanted.${n} || scope ? ${n} || args ? ${n})) (builtins.attrNames wanted);
    in
    if missing != [ ] then
      throw "callPackage: no value for the argument '${head missing}'"
    else
      makeOverridable f (builtins.intersectAttrs wanted scope // args);

  fix =
    f:
    let
      x = f x;
    in
    x;
  makeExtensible = f: fix (self: f self // { extend = overlay: makeExtensible (extends overlay f); });
  extends =
    overlay: f: final:
    let
      prev = f final;
    in
    prev // overlay final prev;
  composeManyExtensions =
    list: final: prev:
    builtins.foldl' (acc: overlay: acc // overlay final (prev // acc)) { } list;

  # Of the module system only what a module's text calls; the checks look at what the
  # module says, not at what the system makes of it.
  mkOption = option: option // { _type = "option"; };
  mkEnableOption = what: mkOption { description = "Whether to enable ${what}."; };
  literalExpression = text: { inherit text; };
  types = {
    package.name = "package";
    listOf = type: { name = "list of ${type.name}"; };
  };

  licenses.mit = {
    spdxId = "MIT";
    free = true;
  };
  platforms.linux = [
    "x86_64-linux"
    "aarch64-linux"
  ];
  maintainers = { };
}
