# shellcheck shell=bash
# What the suites written in shell share: counting, the closing line, a scratch directory and our binaries.
# Source this from a script that has set $root to the top of the project, then call suite_begin.

passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); echo "ok      $*"; }
fail() { failed=$((failed + 1)); echo "FAILED  $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped $*"; }
finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0))
  exit
}

# suite_begin NAME TOOL…: leave with a skip where a tool is missing; make $work, which is removed at the end, and $bin,
# which holds our binaries (those of CUDA_RUNPATH_BIN where that is set).
suite_begin() {
  local name=$1 tool
  shift
  export LC_ALL=C GOTOOLCHAIN=local
  for tool in go "$@"; do
    command -v "$tool" >/dev/null || { skip "everything: $tool is not installed"; finish; }
  done
  work=$(mktemp -d "${TMPDIR:-/tmp}/$name.XXXXXX") || exit 2
  trap 'rm -rf "$work"' EXIT
  bin=${CUDA_RUNPATH_BIN:-$work/bin}
  if [[ -z ${CUDA_RUNPATH_BIN-} ]] && ! (mkdir "$bin" && cd "${root:?}" && CGO_ENABLED=0 go build -o "$bin" ./cmd/...); then
    fail "the binaries build"
    finish
  fi
}

# lint FILE: what eu-elflint --gnu-ld complains about, numbers replaced by #.
lint() {
  eu-elflint --gnu-ld "$1" 2>&1 | grep -v -x 'No errors' | sed -E "s|$1||; s/0x[0-9a-f]+|[0-9]+/#/g" | sort -u
}

# run_path FILE: "TAG LIST" as readelf finds it, "" where there is none.
run_path() { readelf -dW "$1" 2>/dev/null | sed -n -E 's/.*\((RUNPATH|RPATH)\).*\[(.*)\]$/\1 \2/p'; }
