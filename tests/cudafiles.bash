# shellcheck shell=bash
# CUDA files to work on, for tests/demo and tests/contract: real ones from npm and Debian (kept in .cache, which is not
# tracked), and small fakes of the driver, the compat package and the stubs, whose only purpose is to say who they are.
# Source this from a script that has set $root to the top of the project.

cudafiles_cache=${CUDA_RUNPATH_CACHE:-${root:?}/.cache}
llama_package=@node-llama-cpp/linux-x64-cuda
llama_version=3.22.1
llama_sha512=f2b4028f234d2d9254162b7e6298f0942e21c242a038c224076c2ec9c2817fc354d8edf248a6e259943c6b0f64bb69d44d78d29d422b13a281f3c8ad76e4c1b8 # npm's dist.integrity

# patiently WHAT COMMAND...: carry it out, and say meanwhile on a terminal what is done, and for how long, as the tools do.
patiently() {
  local what=$1 from=$SECONDS work status=0
  shift
  [[ -t 2 ]] || { "$@"; return; }
  "$@" &
  work=$!
  while sleep 1 && kill -0 "$work" 2>/dev/null; do printf '\r\e[K%s: %d s' "$what" $((SECONDS - from)) >&2; done
  wait "$work" || status=$?
  printf '\r\e[K' >&2
  return "$status"
}

pack_llama() {
  (cd "$cudafiles_cache" && timeout 300 npm pack --silent --fetch-retries=1 --fetch-timeout=60000 \
    "$llama_package@$llama_version") >/dev/null 2>"$cudafiles_cache/npm.log" </dev/null
}

# fetch_llama: put llama.cpp's CUDA back end into the cache once; print the directory that holds its 20 ELF files.
# Returns 1, with the reason on stderr, where it cannot be had.
fetch_llama() {
  local to=$cudafiles_cache/llama-cpp-$llama_version tarball=$cudafiles_cache/node-llama-cpp-linux-x64-cuda-$llama_version.tgz
  if [[ $(cat "$to/complete" 2>/dev/null) != "$llama_sha512" ]]; then
    mkdir -p "$cudafiles_cache"
    if [[ ! -s $tarball ]]; then
      command -v npm >/dev/null || { echo "npm is not installed, so llama.cpp's CUDA package cannot be fetched" >&2; return 1; }
      patiently "fetching llama.cpp's CUDA back end from npm (143 MB, once)" pack_llama ||
        { echo "npm pack $llama_package@$llama_version failed (no network?)" >&2; rm -f "$tarball"; return 1; }
    fi
    sha512sum --check --status <<<"$llama_sha512  $tarball" ||
      { echo "$tarball is not the package that is meant: its SHA-512 is another. Delete it and try again" >&2; return 1; }
    rm -rf "$to"
    mkdir -p "$to"
    tar -xzf "$tarball" -C "$to" --strip-components=1 || { echo "$tarball is damaged: delete it and try again" >&2; return 1; }
    echo "$llama_sha512" >"$to/complete"
  fi
  echo "$to/bins/linux-x64-cuda"
}

# make_library FILE SONAME IDENTITY: a library that exports cuInit, which does nothing, and whoami, which names it.
make_library() {
  mkdir -p "$(dirname "$1")"
  printf 'int cuInit(unsigned flags) { return (int)flags; }\nconst char *whoami(void) { return "%s"; }\n' "$3" |
    cc -shared -fPIC -O1 -Wl,-soname,"$2" -o "$1" -x c -
}

# make_host DIR: a host's driver, a compat package, the toolkit's stubs (as nixpkgs lays them out: libcuda.so with a link
# that carries the versioned name) and the two toolkit libraries that llama.cpp needs, all fakes.
make_host() {
  make_library "$1/run/opengl-driver/lib/libcuda.so.1" libcuda.so.1 driver &&
    make_library "$1/cuda_compat/compat/libcuda.so.1" libcuda.so.1 compat &&
    make_library "$1/cuda_cudart-stubs/lib/stubs/libcuda.so" libcuda.so.1 stub &&
    ln -sf libcuda.so "$1/cuda_cudart-stubs/lib/stubs/libcuda.so.1" &&
    make_library "$1/toolkit/lib/libcudart.so.13" libcudart.so.13 toolkit &&
    make_library "$1/toolkit/lib/libcublas.so.13" libcublas.so.13 toolkit
}

# make_cuda_like DIR HOST: a small package such as a CUDA build leaves it: a library that needs the driver and the toolkit,
# a plugin that needs that library, a program; each with the run path '$ORIGIN:', trailing colon included.
make_cuda_like() {
  local stubs=$2/cuda_cudart-stubs/lib/stubs
  # shellcheck disable=SC2016  # the loader expands $ORIGIN, not the shell
  local runpath='-Wl,--enable-new-dtags,-rpath,$ORIGIN:'
  mkdir -p "$1"
  printf 'int cuInit(unsigned); int whichcuda(void) { return cuInit(0); }\n' |
    cc -shared -fPIC -o "$1/libggml-cuda.so" -x c - -x none "$stubs/libcuda.so" \
      -Wl,--no-as-needed "$2/toolkit/lib/libcudart.so.13" "$runpath" &&
    printf 'int whichcuda(void); int plugin(void) { return whichcuda(); }\n' |
    cc -shared -fPIC -o "$1/addon.node" -x c - -x none "$1/libggml-cuda.so" "$runpath" &&
    printf 'int main(void) { return 0; }\n' |
    cc -o "$1/program" -x c - "$runpath"
}

# run_path_of FILE: the run path as binutils reads it, after "RUNPATH " or "RPATH "; "none" where there is none.
run_path_of() {
  readelf -dW "$1" 2>/dev/null | sed -n 's/.*(\(RUNPATH\|RPATH\)) *Library \(runpath\|rpath\): \[\(.*\)\]$/\1 \3/p' |
    grep . || echo none
}

# loader: the machine's own program loader.
loader() {
  printf 'int main(void) { return 0; }\n' | cc -o "$1/loader-probe" -x c - || return
  readelf -lW "$1/loader-probe" | sed -n 's/.*program interpreter: \(.*\)\]$/\1/p'
}

# fetch_debian_cuda DIR: the CUDA driver and toolkit libraries of Debian's non-free section, unpacked into DIR/lib, not
# installed; 0.6 GB to fetch. Uses the machine's own mirror, with a sources list of its own.
fetch_debian_cuda() {
  local to=$1 suite uri
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  # shellcheck disable=SC1091
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -n -E 's/^URIs: *([^ ]*\/debian)\/?( .*)?$/\1/p; s/^deb (\[[^]]*\] )?([^ ]*\/debian)\/? .*/\2/p' | head -n 1)
  [[ -n $suite && -n $uri ]] || { echo "no Debian mirror is configured here" >&2; return 1; }
  rm -rf "$to"
  mkdir -p "$to/apt/lists/partial" "$to/apt/cache" "$to/debs" "$to/unpacked" "$to/lib"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite non-free" >"$to/apt/sources.list"
  local -a apt=(apt-get -qq -o Dir::Etc::sourcelist="$to/apt/sources.list" -o Dir::Etc::sourceparts="$to/none" -o Acquire::Retries=1
    -o Dir::State::lists="$to/apt/lists" -o Dir::Cache="$to/apt/cache" -o APT::Sandbox::User=root)
  "${apt[@]}" update >&2 || return 1
  local -a names
  mapfile -t names < <(apt-cache -o Dir::Etc::sourcelist="$to/apt/sources.list" -o Dir::Etc::sourceparts="$to/none" \
    -o Dir::State::lists="$to/apt/lists" -o Dir::Cache="$to/apt/cache" pkgnames |
    grep -E '^(libcuda1|libnvidia-ml1|libnvidia-ptxjitcompiler1|libcudart[0-9.]+|libcublas[0-9.]+|libcublaslt[0-9.]+|libnvrtc[0-9.]+)$' | sort)
  (cd "$to/debs" && "${apt[@]}" download "${names[@]}") >&2 || return 1
  local deb
  for deb in "$to"/debs/*.deb; do dpkg-deb -x "$deb" "$to/unpacked" || return 1; done
  find "$to/unpacked" -type f -name 'lib*.so*' -exec mv -t "$to/lib" {} +
  rm -rf "$to/debs" "$to/apt" "$to/unpacked"
  : >"$to/complete"
}
