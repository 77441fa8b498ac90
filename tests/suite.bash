# shellcheck shell=bash
# What the suites written in shell share: counting, the closing line, a scratch directory, our binaries and comparisons.
# Source this from a script that has set $root to the top of the project, then call suite_begin.
#
# A line that begins with "skipped " says what was skipped and why: tests/run repeats these at its end.

umask 022 # parts of some suites run as another user
passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); echo "ok      $*"; }
fail() { failed=$((failed + 1)); echo "FAILED  $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped $*"; }
finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0))
  exit
}

# python_itself: PATH leads to Python itself. Where a version manager's shim stands before it, each start is a shell's, and
# many processes more.
python_itself() {
  local python
  python=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))' 2>/dev/null)
  [[ -z $python || :$PATH: == *":$python:"* ]] || PATH=$python:$PATH
}

# suite_begin NAME TOOL…: leave with a skip where a tool is missing; make $work, which is removed at the end, and $bin,
# which holds our binaries (those of CUDA_RUNPATH_BIN where that is set) and is first in PATH.
suite_begin() {
  local name=$1 tool
  shift
  export LC_ALL=C GOTOOLCHAIN=local
  for tool in go "$@"; do
    command -v "$tool" >/dev/null || { skip "everything: $tool is not installed"; finish; }
  done
  python_itself
  work=$(mktemp -d "${TMPDIR:-/tmp}/$name.XXXXXX") || exit 2
  chmod 755 "$work" # parts of some suites run as another user
  trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT # a test's own tree, Go's modules and Nix's store may be read-only
  bin=${CUDA_RUNPATH_BIN:-$work/bin}
  if [[ -z ${CUDA_RUNPATH_BIN-} ]] && ! (mkdir "$bin" && cd "${root:?}" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -o "$bin" ./cmd/...); then
    fail "the binaries build"
    finish
  fi
  PATH=$bin:$PATH
}

# add_closing_line FILE: add up what a checker of another language counted; its last line is a closing line.
add_closing_line() {
  if [[ $(tail -n 1 "$1") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
  else
    fail "the checker ends with its closing line"
  fi
}

# is NAME WANT GOT: the two texts are the same.
is() {
  if [[ $2 == "$3" ]]; then pass "$1"; else
    fail "$1"
    printf '  want: %s\n  got:  %s\n' "$2" "$3"
  fi
}
# matches PATTERN TEXT: does a line of the text match the extended regular expression, as grep -E judges it? No process is
# started for it, which would take ten times as long. 2 is for a pattern that is none.
matches() {
  local - IFS=$'\n' line empty
  [[ '' =~ $1 ]]
  # shellcheck disable=SC2319 # it is the condition's that is asked for
  empty=$?
  ((empty < 2)) || return 2
  set -f # the text is split at its newlines, and no more; that leaves out empty lines
  for line in $2; do
    [[ $line =~ $1 ]] && return
  done
  case $2 in '' | *$'\n\n'* | $'\n'* | *$'\n') return "$empty" ;; esac
  return 1
}
# like NAME PATTERN TEXT: a line of the text matches; unlike: none does.
like() {
  if matches "$2" "$3"; then pass "$1"; else
    fail "$1"
    printf '  want: %s\n  got:  %s\n' "$2" "${3//$'\n'/$'\n        '}"
  fi
}
unlike() {
  matches "$2" "$3"
  if (($? == 1)); then pass "$1"; else
    fail "$1"
    printf '  not wanted: %s\n  got:  %s\n' "$2" "${3//$'\n'/$'\n        '}"
  fi
}
# status NAME WANT COMMAND…: the command ends with the status; what it prints is in $out.
status() {
  local name=$1 want=$2 got
  shift 2
  out=$("$@" 2>&1 </dev/null)
  got=$?
  if ((got == want)); then pass "$name"; else
    fail "$name"
    printf '  status %s, not %s: %s\n' "$got" "$want" "${out//$'\n'/$'\n  '}"
  fi
}

# intact NAME COMMAND…: nix-store, as COMMAND… starts it, finds every file of its store as it has registered it.
intact() {
  local name=$1 report
  shift
  report=$("$@" --verify --check-contents 2>&1 | grep -v -E '^(reading the Nix store|checking (path existence|hashes|link hashes|store hashes))|build-users-group')
  is "nix-store --verify --check-contents says nothing: $name" "" "$report"
}

# lint FILE: what eu-elflint --gnu-ld complains about, numbers replaced by #.
lint() {
  eu-elflint --gnu-ld "$1" 2>&1 | grep -v -x 'No errors' | sed -E "s|$1||; s/0x[0-9a-f]+|[0-9]+/#/g" | sort -u
}

# run_path FILE: "TAG LIST" as readelf finds it, "" where there is none.
run_path() { readelf -dW "$1" 2>/dev/null | sed -n -E 's/.*\((RUNPATH|RPATH)\).*\[(.*)\]$/\1 \2/p'; }
