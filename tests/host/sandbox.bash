# shellcheck shell=bash
# shellcheck disable=SC2015,SC2016,SC2059
# Nix builds that ask for a GPU: hostDriver sandbox as a real pre-build-hook of the Nix that is here, with sandbox = true. The
# devices and the driver are those of a made-up tree. Sourced by tests/host/run after attacks.bash, whose tiny driver is used.
: "${work:=}" "${hostDriver:=}" "${here:=}" "${version:=}" "${mounts:=}"

if ! command -v nix-build >/dev/null; then
  skip "sandbox: nix-build is not installed"
elif ! gcc -static -O1 -o "$work/probe" "$here/probe.c" 2>"$work/probe.log"; then
  skip "sandbox: no static C library: $(tail -n 1 "$work/probe.log")"
else
  sandbox=$work/sandbox
  tree=$sandbox/tree
  mkdir -p "$sandbox/conf" && tiny "$tree"
  chmod -R a+rX "$sandbox"
  nix_here() {
    env NIX_STORE_DIR="$sandbox/nix/store" NIX_STATE_DIR="$sandbox/nix/state" NIX_LOG_DIR="$sandbox/nix/log" NIX_CONF_DIR="$sandbox/conf" \
      NIX_USER_CONF_FILES='' NIX_PATH='' HOME="$sandbox" "$@"
  }
  printf '# mine\nsandbox = true\nsandbox-fallback = false\nsubstituters =\nbuild-users-group =\nsystem-features = big-parallel\n' >"$sandbox/conf/nix.conf"
  cat >"$sandbox/probe.nix" <<'NIX'
{ probe, paths, features ? [ ], name ? "probe", structured ? false, wait ? "0" }:
derivation ({
  inherit name;
  system = builtins.currentSystem;
  builder = "${/. + probe}";
  args = [ (placeholder "out") wait ] ++ builtins.filter builtins.isString (builtins.split " " paths);
  requiredSystemFeatures = features;
} // (if structured then { __structuredAttrs = true; } else { }))
NIX
  # configure [COMMAND…]: set Nix up (by a command, such as strace, that starts hostDriver), with a record that this machine does not keep.
  configure() {
    unshare --mount sh -euc 'mount -t tmpfs -o mode=755 none /var/lib && exec "$@"' sh "$@" "$hostDriver" sandbox --conf "$sandbox/conf/nix.conf" --program "$sandbox/between"
  }
  # seen NAME FEATURES [ARGUMENT…]: what a build of these features sees of some paths.
  watched="/dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm /run/opengl-driver/lib /run/opengl-driver/lib/libcuda.so.1 /usr/lib64/libcuda.so.1"
  seen() {
    local out
    out=$(nix_here nix-build --no-out-link "$sandbox/probe.nix" --argstr probe "$work/probe" --argstr paths "$watched" --argstr name "$1" \
      --arg features "$2" "${@:3}" 2>"$sandbox/log") && cat "$out" || cat "$sandbox/log"
  }
  nothing="/dev/nvidia0 absent
/dev/nvidiactl absent
/dev/nvidia-uvm absent
/run/opengl-driver/lib absent
/run/opengl-driver/lib/libcuda.so.1 absent
/usr/lib64/libcuda.so.1 absent"
  if [[ $(seen control '[ ]') != "$nothing" ]]; then
    skip "sandbox: Nix has none here: $(tail -n 1 "$sandbox/log")"
  else
    # What is configured, started on a made-up tree by a program in between.
    printf '#!/bin/sh\nshift\nexec %q sandbox --root %q --cache %q "$@"\n' "$hostDriver" "$tree" "$sandbox/cache" >"$sandbox/between" && chmod 755 "$sandbox/between"
    like "sandbox: before, no build may ask" "(required|missing) system features|required to build|Required features: \{cuda\}" "$(seen before '[ "cuda" ]')"
    status "sandbox" 0 configure
    is "sandbox: what was there is kept, in its place" "# mine sandbox = true" "$(head -n 2 "$sandbox/conf/nix.conf" | tr '\n' ' ' | sed 's/ $//')"
    before=$(sha256sum <"$sandbox/conf/nix.conf")
    status "sandbox again" 0 configure
    is "sandbox again changes nothing" "$before" "$(sha256sum <"$sandbox/conf/nix.conf")"
    like "sandbox: Nix has our system features beside those that were there" "system-features = big-parallel cuda gpu nvidia-gpu opengl" \
      "$(nix_here nix --extra-experimental-features nix-command show-config 2>&1 | grep ^system-features)"
    for made in nothing links copies; do
      case $made in
        links) hostDriver install -q --links --root "$tree" ;;
        copies) hostDriver install -q --root "$tree" ;;
      esac
      is "sandbox, $made in the driver link: a build that does not ask sees no device and no driver" "$nothing" "$(seen "plain-$made" '[ ]')"
      is "sandbox, $made: nor does one that asks for something else" "$nothing" "$(seen "other-$made" '[ "big-parallel" ]')"
      for feature in cuda gpu nvidia-gpu opengl; do
        out=$(seen "$feature-$made" "[ \"$feature\" ]")
        like "sandbox, $made: one that asks for $feature sees the devices" "/dev/nvidia0 0 /dev/nvidiactl 0 /dev/nvidia-uvm 0 " "${out//$'\n'/ }"
        is "sandbox, $made: $feature: and every name of the driver link" "libcuda.so libcuda.so.1 libcuda.so.$version" \
          "$(sed -n 's|^/run/opengl-driver/lib directory ||p' <<<"$out" | tr ' ' '\n' | grep libcuda | sort | tr '\n' ' ' | sed 's/ $//')"
        like "sandbox, $made: $feature: its file, not a link to one that is not there" "^/run/opengl-driver/lib/libcuda\.so\.1 [0-9]{5}" "$out"
      done
      like "sandbox, $made: structured attributes" "/dev/nvidia0 0" "$(seen "structured-$made" '[ "kvm" "cuda" ]' --arg structured true --option system-features 'kvm cuda')"
    done
    # Two builds at once: the one that asks lets the other see nothing.
    out=$(nix_here nix-build --no-out-link -j 2 -E "let p = a: import $sandbox/probe.nix ({ probe = $work/probe; paths = \"$watched\"; wait = \"2\"; } // a);
      in [ (p { name = \"asks\"; features = [ \"cuda\" ]; }) (p { name = \"does-not\"; }) ]" 2>"$sandbox/log")
    like "sandbox: two builds at once: the one that asks" "/dev/nvidia0 0" "$(cat "$(grep -- '-asks$' <<<"$out")" 2>&1)"
    is "sandbox: two builds at once: the other" "$nothing" "$(cat "$(grep -- '-does-not$' <<<"$out")" 2>&1)"
    # A store that is elsewhere: the hook is told a path at which there is no .drv file.
    out=$(nix_here nix-build --no-out-link --store "$sandbox/elsewhere" "$sandbox/probe.nix" --argstr probe "$work/probe" --argstr paths "$watched" \
      --arg features '[ "cuda" ]' 2>"$sandbox/log") && out=$(cat "$sandbox/elsewhere/nix/store/${out##*/}")
    like "sandbox: a store elsewhere" "/dev/nvidia0 0" "${out:-$(cat "$sandbox/log")}"
    # Without a GPU, only what asks for one fails, and says why.
    mv "$tree/dev" "$tree/no-dev" && mkdir "$tree/dev"
    like "sandbox: no GPU here: a build that asks says so" "no NVIDIA GPU device" "$(seen without '[ "cuda" ]')"
    is "sandbox: no GPU here: another is built" "$nothing" "$(seen without-plain '[ ]')"
    rm "$sandbox/between"
    is "sandbox: where hostDriver is gone, builds continue" "$nothing" "$(seen gone '[ ]')"
    printf '#!/bin/sh\nshift\nexec %q sandbox --root %q --cache %q "$@"\n' "$hostDriver" "$tree" "$sandbox/cache" >"$sandbox/between" && chmod 755 "$sandbox/between"
    rmdir "$tree/dev" && mv "$tree/no-dev" "$tree/dev"
  fi

  # Derivations as they may come; nothing of them fails a build that does not ask.
  drv() { printf 'Derive([("out","%s/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-x","","")],[],[],"x86_64-linux","/bin/sh",[],[%s])' "" "$1" >"$sandbox/x.drv"; }
  asks() { hostDriver sandbox --root "$tree" --cache "$sandbox/cache" "$sandbox/x.drv" 2>&1; }
  drv '("requiredSystemFeatures","kvm cuda")'
  like "sandbox: a list of features" "^extra-sandbox-paths .*/dev/nvidia0=.*/run/opengl-driver/lib/libcuda.so.1=" "$(asks | tr '\n' ' ')"
  is "sandbox: an empty line ends the list" "" "$(asks | tail -n 1)"
  if command -v strace >/dev/null && [[ -n $mounts ]]; then
    # Killed at every system call that changes something, sandbox leaves the old nix.conf or the new one; the next leaves nothing else.
    killed=0 broken=0 leftover=0
    mkdir "$sandbox/k" && mv "$sandbox/conf" "$sandbox/kept" && ln -s k "$sandbox/conf"
    for call in mkdirat linkat renameat renameat2 unlinkat fchmod fchown write; do
      for ((point = 1; point < 200; point++)); do
        rm -f "$sandbox"/k/* "$sandbox"/k/.cuda-runpath-new.*
        echo 'x = y' >"$sandbox/k/nix.conf"
        (configure strace -f -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$point"; exit $?) >/dev/null 2>&1 && break
        killed=$((killed + 1))
        [[ $(wc -l <"$sandbox/k/nix.conf") == [15] && $(head -n 1 "$sandbox/k/nix.conf") == 'x = y' ]] || broken=$((broken + 1))
        configure >/dev/null
        [[ $(ls -A "$sandbox/k") == $'hostDriver-sandbox\nnix.conf' ]] || leftover=$((leftover + 1))
      done
    done
    rm "$sandbox/conf" && mv "$sandbox/kept" "$sandbox/conf"
    is "sandbox killed at each of $killed system calls: nix.conf is the old or the new one" 0 "$broken"
    is "sandbox: and the next leaves nothing else" 0 "$leftover"
    if ((killed > 5)); then ok "sandbox: (it was killed often)"; else no "sandbox: killed $killed times"; fi
  else
    skip "sandbox killed at each system call: strace is not installed"
  fi

  # doctor
  mkdir -p "$tree/nix/store" "$tree/etc/nix"
  [[ -z $mounts ]] || configure >/dev/null
  says() { hostDriver doctor -v --root "$tree" | grep 'Nix builds'; }
  like "doctor: builds cannot see the GPU" "^note +Nix builds +cannot see the GPU" "$(says)"
  cp "$sandbox/conf/nix.conf" "$tree/etc/nix/nix.conf"
  like "doctor: a hook that is not there" "^WARN +Nix builds +the pre-build-hook .*does not exist" "$(says)"
  mkdir -p "$tree$sandbox/conf" && : >"$tree$sandbox/conf/hostDriver-sandbox"
  like "doctor: builds get the GPU" "^ok +Nix builds +get the GPU through .*hostDriver-sandbox" "$(says)"
  echo 'system-features = kvm' >>"$tree/etc/nix/nix.conf"
  like "doctor: the features are replaced further down" "^WARN +Nix builds .*include none of" "$(says)"
  printf '!include more.conf\n' >"$tree/etc/nix/nix.conf" && echo 'sandbox = false' >"$tree/etc/nix/more.conf"
  like "doctor: no sandbox" "^note +Nix builds +are not in a sandbox" "$(says)"
fi
