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
  versionAtLeast = version: least: builtins.compareVersions version least >= 0;
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
  warn = message: builtins.trace "warning: ${message}";
  warnIf = condition: message: if condition then warn message else (value: value);
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
  last = list: builtins.elemAt list (builtins.length list - 1);
  drop = n: list: builtins.genList (i: builtins.elemAt list (n + i)) (builtins.length list - n);
  elem = builtins.elem;
  remove = value: filter (x: x != value);
  unique = builtins.foldl' (acc: x: if builtins.elem x acc then acc else acc ++ [ x ]) [ ];
  flatten = x: if builtins.isList x then builtins.concatMap flatten x else [ x ];

  toIntBase10 =
    text:
    if stringLength text > 1 && hasPrefix "0" text then
      toIntBase10 (removePrefix "0" text)
    else
      builtins.fromJSON text;
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

  # The module system in small: options with defaults and checked types, mkIf at the top
  # of a module, lists that add up, and no settings that nobody declared.
  mkOption = option: option // { _type = "option"; };
  mkEnableOption =
    what:
    mkOption {
      description = "Whether to enable ${what}.";
      default = false;
      type = types.bool;
    };
  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  literalExpression = text: { inherit text; };
  types = {
    bool.check = builtins.isBool;
    package.check = isDerivation;
    raw.check = _: true;
    listOf = type: {
      check = value: builtins.isList value && builtins.all type.check value;
      merge = builtins.concatLists;
    };
    attrsOf = type: {
      check = value: isAttrs value && builtins.all type.check (builtins.attrValues value);
      # An attribute may be under a mkIf too.
      merge = builtins.foldl' (
        a: b:
        a
        // builtins.mapAttrs (_: v: if v._type or "" == "if" then v.content else v) (
          filterAttrs (_: v: v._type or "" != "if" || v.condition) b
        )
      ) { };
    };
  };
  evalModules =
    {
      modules,
      specialArgs ? { },
    }:
    let
      loaded = map (
        module:
        if isFunction module then
          module (
            {
              inherit config options;
              lib = import ./lib.nix;
            }
            // specialArgs
          )
        else
          module
      ) modules;
      # A module with a key is one, however often it comes.
      once = builtins.foldl' (
        list: m: if m ? key && builtins.any (other: other.key or null == m.key) list then list else list ++ [ m ]
      ) [ ] loaded;
      merge =
        a: b:
        a
        // builtins.mapAttrs (
          n: v:
          if !(a ? ${n}) then
            v
          else if isAttrs v && v._type or "" != "option" then
            merge a.${n} v
          else
            throw "the option ${n} is already declared"
        ) b;
      options = builtins.foldl' merge { } (map (m: m.options or { }) once);
      # Conditions go along with the settings: what a module sets may not depend on them.
      settings =
        module:
        let
          given = module.config or (removeAttrs module [ "options" ]);
        in
        if given._type or "" == "if" then
          given
        else
          {
            condition = true;
            content = given;
          };
      value =
        path: declared: given:
        if declared._type or "" == "option" then
          let
            set = map (g: g.content) (filter (g: g.condition) given);
            result =
              if set == [ ] then
                declared.default or (throw "the option ${path} has no value")
              else if declared.type ? merge then
                declared.type.merge set
              else
                head set;
          in
          if declared.type.check result then result else throw "the option ${path} has a wrong type"
        else
          let
            unknown = filter (n: !(declared ? ${n})) (
              builtins.concatMap (g: builtins.attrNames g.content) given
            );
          in
          if unknown != [ ] then
            throw "there is no option ${path}${head unknown}"
          else
            builtins.mapAttrs (
              n: option:
              value "${path}${n}." option (
                map (g: g // { content = g.content.${n}; }) (filter (g: g.content ? ${n}) given)
              )
            ) declared;
      config = value "" options (map settings once);
    in
    {
      inherit config options;
    };

  fakeHash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
  licenses.mit = {
    spdxId = "MIT";
    free = true;
  };
  platforms.linux = [
    "x86_64-linux"
    "aarch64-linux"
  ];
  maintainers.layus.name = "of autoPatchelfHook";
}
