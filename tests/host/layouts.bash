# shellcheck shell=bash
# Trees of the hosts that hostDriver knows, each as the distribution lays it out, with the driver's real files from Debian's
# non-free section. Source this from a script that has set $root (of the project), $files (what fetch_driver made) and $version.

# The library packages, and the ICDs' text files. libnvoptix1 (131 MB) and libnvidia-rtcore (17 MB) are left out for their size.
: "${files:=}" "${version:=}"
driver_packages=(libcuda1 libnvidia-ml1 libnvidia-ptxjitcompiler1 libnvcuvid1 libnvidia-encode1 libnvidia-opticalflow1
  libcudadebugger1 libnvidia-cfg1 libnvidia-allocator1 libnvidia-ngx1 libegl-nvidia0 libglx-nvidia0 libgles-nvidia2
  libnvidia-eglcore libnvidia-glcore libnvidia-glvkspirv nvidia-opencl-icd nvidia-egl-icd nvidia-vulkan-icd)
other_packages=(libcuda1 libnvidia-ml1 libnvidia-ptxjitcompiler1) # for i386 and arm64 too

# fetch_driver DIR: the driver of Debian's non-free section for amd64, i386 and arm64, unpacked below DIR and not
# installed; about 85 MB to fetch, once. Returns 1, with the reason on stderr, where it cannot be had.
fetch_driver() {
  local to=$1 suite uri package
  [[ -e $to/complete ]] && return
  if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "this is not Debian, so its driver packages cannot be fetched" >&2
    return 1
  fi
  # shellcheck disable=SC1091
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -n -E 's/^URIs: *([^ ]*\/debian)\/?( .*)?$/\1/p; s/^deb (\[[^]]*\] )?([^ ]*\/debian)\/? .*/\2/p' | head -n 1)
  [[ -n $suite && -n $uri ]] || { echo "no Debian mirror is configured here" >&2; return 1; }
  local fresh=$to.new
  rm -rf "$fresh"
  mkdir -p "$fresh/apt/lists/partial" "$fresh/apt/cache/archives/partial" "$fresh/debs" || return
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite non-free" >"$fresh/apt/sources.list"
  local -a own=(-o Dir::Etc::sourcelist="$fresh/apt/sources.list" -o Dir::Etc::sourceparts="$fresh/none"
    -o Dir::State::lists="$fresh/apt/lists" -o Dir::Cache="$fresh/apt/cache" -o APT::Sandbox::User=root
    -o APT::Architecture=amd64 -o "APT::Architectures=amd64,i386,arm64" -o Acquire::Languages=none
    -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
  timeout 120 apt-get -qq "${own[@]}" update >&2 || { echo "the package lists cannot be fetched (no network?)" >&2; return 1; }
  local -a names=()
  for package in "${driver_packages[@]}"; do
    [[ -n $(apt-cache "${own[@]}" madison "$package" 2>/dev/null) ]] && names+=("$package")
  done
  for package in "${other_packages[@]}"; do names+=("$package:i386" "$package:arm64"); done
  (cd "$fresh/debs" && timeout 600 apt-get -qq "${own[@]}" download "${names[@]}") >&2 ||
    { echo "the driver's packages cannot be fetched" >&2; return 1; }
  local deb architecture
  for deb in "$fresh"/debs/*.deb; do
    architecture=${deb##*_}
    dpkg-deb -x "$deb" "$fresh/${architecture%.deb}" || return
  done
  rm -rf "$fresh/debs" "$fresh/apt" "$to"
  : >"$fresh/complete"
  mv "$fresh" "$to"
}

# put FILE… DIR: hard links, which cost nothing, or copies where the file system is another one.
put() {
  local to=${*: -1}
  mkdir -p "$to"
  cp -al "${@:1:$#-1}" "$to/" 2>/dev/null || cp -a --remove-destination "${@:1:$#-1}" "$to/"
}

# nodes TREE NAME…: device nodes, null devices or, where this user may make none, such as anybody may make.
nodes() {
  local n tree=$1
  for n in "${@:2}"; do mknod -m 666 "$tree/dev/$n" c 1 3 2>/dev/null || mknod -m 666 "$tree/dev/$n" c 0 0; done
}

# skeleton DIR [LOADED]: what every host has; LOADED is the version of the kernel module, "" for none.
skeleton() {
  mkdir -p "$1"/{bin,etc,usr/lib,usr/lib64,run,dev,proc/driver,sys/module,tmp}
  ln -sfn usr/lib "$1/lib"
  ln -sfn usr/lib64 "$1/lib64"
  cp /bin/true "$1/bin/sh"
  chmod 755 "$1"
  [[ -n ${2-} ]] || return 0
  mkdir -p "$1/proc/driver/nvidia" "$1/sys/module/nvidia"
  printf 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Tue Jun  3 11:17:40 UTC 2025\nGCC version:  gcc version 12.2.0\n' \
    "$2" >"$1/proc/driver/nvidia/version"
  echo "$2" >"$1/sys/module/nvidia/version"
  nodes "$1" nvidiactl nvidia0 nvidia-uvm
}

# cache DIR: run ldconfig, as the distribution's packages do after installing a library.
cache() { /sbin/ldconfig -X -r "$1" 2>/dev/null; }

# amd64, i386, arm64: where the unpacked packages keep the libraries.
amd64() { echo "$files/amd64/usr/lib/x86_64-linux-gnu"; }
i386() { echo "$files/i386/usr/lib/i386-linux-gnu"; }
arm64() { echo "$files/arm64/usr/lib/aarch64-linux-gnu"; }

# core DIR: the libraries that any CUDA program may need, under their versioned names, with the links of their sonames.
core() {
  local lib
  for lib in cuda nvidia-ml nvidia-ptxjitcompiler nvidia-encode; do
    put "$(amd64)/nvidia/current/lib$lib.so.$version" "$1"
    ln -sfn "lib$lib.so.$version" "$1/lib$lib.so.1"
  done
}

# Debian: every file of the packages, the sonames by way of the alternatives; the 32-bit driver beside it.
layout_debian() {
  local link
  skeleton "$1" "$version"
  put "$files/amd64/usr" "$1"
  put "$files/i386/usr" "$1"
  for link in "$1"/usr/lib/{x86_64,i386}-linux-gnu/nvidia/current/*.so.[0-9]; do
    mkdir -p "$1/etc/alternatives"
    ln -sfn "${link#"$1"}" "$1/etc/alternatives/glx--${link##*/}-$(basename "${link%/nvidia/current/*}")"
    ln -sfn "/etc/alternatives/glx--${link##*/}-$(basename "${link%/nvidia/current/*}")" "${link%/nvidia/current/*}/${link##*/}"
  done
  # What the driver needs of the host: as much of it as this machine has.
  for link in libX11.so.6 libXext.so.6 libxcb.so.1 libXau.so.6 libXdmcp.so.6 libbsd.so.0 libmd.so.0 libgcc_s.so.1; do
    [[ ! -e /usr/lib/x86_64-linux-gnu/$link ]] || cp -L "/usr/lib/x86_64-linux-gnu/$link" "$1/usr/lib/x86_64-linux-gnu/"
  done
  printf '/usr/lib/x86_64-linux-gnu\n/usr/lib/i386-linux-gnu\n' >"$1/etc/ld.so.conf"
  cache "$1"
}

# Ubuntu: the same directory without alternatives; a toolkit with its stub directory and a compat package in ld.so.conf.
layout_ubuntu() {
  skeleton "$1" "$version"
  core "$1/usr/lib/x86_64-linux-gnu"
  mkdir -p "$1/usr/local/cuda-12.2/lib64/stubs" "$1/usr/local/cuda-12.2/compat" "$1/etc/ld.so.conf.d"
  cp "$1/usr/lib/x86_64-linux-gnu/libcuda.so.$version" "$1/usr/local/cuda-12.2/lib64/stubs/libcuda.so"
  cp "$1/usr/lib/x86_64-linux-gnu/libcuda.so.$version" "$1/usr/local/cuda-12.2/compat/libcuda.so.545.23.06"
  ln -sfn libcuda.so.545.23.06 "$1/usr/local/cuda-12.2/compat/libcuda.so.1"
  ln -sfn cuda-12.2 "$1/usr/local/cuda"
  echo 'include /etc/ld.so.conf.d/*.conf' >"$1/etc/ld.so.conf"
  echo /usr/local/cuda/compat >"$1/etc/ld.so.conf.d/00-compat.conf"
  echo /usr/local/cuda/lib64/stubs >"$1/etc/ld.so.conf.d/01-stubs.conf"
  printf '/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n' >"$1/etc/ld.so.conf.d/x86_64-linux-gnu.conf"
  cache "$1"
}

# Fedora: /usr/lib64, and 32-bit libraries in /usr/lib.
layout_fedora() {
  skeleton "$1" "$version"
  core "$1/usr/lib64"
  put "$(i386)"/nvidia/current/lib{cuda,nvidia-ml}.so."$version" "$1/usr/lib"
  ln -sfn "libcuda.so.$version" "$1/usr/lib/libcuda.so.1"
  printf '/usr/lib64\n/usr/lib\n' >"$1/etc/ld.so.conf"
  cache "$1"
}

# Arch: 64-bit libraries in /usr/lib, to which lib64 leads; and here no cache has been written.
layout_arch() {
  skeleton "$1" "$version"
  rm -rf "$1/usr/lib64" && ln -s lib "$1/usr/lib64"
  core "$1/usr/lib"
}

# WSL: Windows' driver in /usr/lib/wsl/lib, three copies and no links; no kernel module; and a Linux driver that
# somebody installed beside it, which does not work there.
layout_wsl() {
  skeleton "$1"
  local name
  put "$(amd64)/nvidia/current/libcuda.so.$version" "$1/tmp"
  mkdir -p "$1/usr/lib/wsl/lib" "$1/etc/ld.so.conf.d"
  for name in libcuda.so libcuda.so.1 libcuda.so.1.1; do
    cp -l "$1/tmp/libcuda.so.$version" "$1/usr/lib/wsl/lib/$name"
  done
  put "$(amd64)/nvidia/current/libnvidia-ml.so.$version" "$1/tmp"
  mv "$1/tmp/libnvidia-ml.so.$version" "$1/usr/lib/wsl/lib/libnvidia-ml.so.1"
  core "$1/usr/lib/x86_64-linux-gnu"
  echo 'include /etc/ld.so.conf.d/*.conf' >"$1/etc/ld.so.conf"
  echo /usr/lib/x86_64-linux-gnu >"$1/etc/ld.so.conf.d/a.conf"
  echo /usr/lib/wsl/lib >"$1/etc/ld.so.conf.d/ld.wsl.conf"
  nodes "$1" dxg
  cache "$1"
}

# Jetson: libcuda.so.1.1 among L4T's libraries in …/tegra, further ones in …/tegra-egl; the lower layers have no version.
layout_jetson() {
  skeleton "$1"
  local dir=$1/usr/lib/aarch64-linux-gnu lib
  put "$(arm64)/nvidia/current/libcuda.so.$version" "$1/tmp"
  mkdir -p "$dir/tegra" "$dir/tegra-egl" "$1/etc" "$1/sys/module/nvgpu"
  mv "$1/tmp/libcuda.so.$version" "$dir/tegra/libcuda.so.1.1"
  ln -sfn libcuda.so.1.1 "$dir/tegra/libcuda.so.1"
  ln -sfn tegra/libcuda.so.1.1 "$dir/libcuda.so"
  for lib in libnvrm_gpu libnvrm_mem libnvos; do
    printf 'int %s(void) { return 0; }\n' "$lib" | aarch64-linux-gnu-gcc -shared -nostdlib -Wl,-soname,"$lib.so" -o "$dir/tegra/$lib.so" -x c - || return
  done
  printf 'int egl(void) { return 0; }\n' | aarch64-linux-gnu-gcc -shared -nostdlib -Wl,-soname,libEGL_nvidia.so.0 -o "$dir/tegra-egl/libEGL_nvidia.so.0" -x c - || return
  printf 'int main(void) { return 0; }\n' | aarch64-linux-gnu-gcc -o "$1/bin/sh" -x c - || return
  echo '# R35 (release), REVISION: 4.1' >"$1/etc/nv_tegra_release"
  printf '/usr/lib/aarch64-linux-gnu/tegra\n/usr/lib/aarch64-linux-gnu/tegra-egl\n' >"$1/etc/ld.so.conf"
  nodes "$1" nvmap nvhost-gpu nvhost-ctrl-gpu
}

# A container on Kubernetes: the host's driver is mounted on /usr/local/nvidia, and no cache knows of it.
layout_container() {
  skeleton "$1" "$version"
  core "$1/usr/local/nvidia/lib64"
  : >"$1/.dockerenv"
}

# NVIDIA container toolkit: single files mounted into the image's library directory, versioned names only; the image
# still has an empty file from a mount of another host's driver.
layout_toolkit() {
  skeleton "$1" "$version"
  mkdir -p "$1/usr/lib/x86_64-linux-gnu"
  put "$(amd64)/nvidia/current"/lib{cuda,nvidia-ml,nvidia-ptxjitcompiler}.so."$version" "$1/usr/lib/x86_64-linux-gnu"
  : >"$1/usr/lib/x86_64-linux-gnu/libcuda.so.470.57.02"
  ln -s libcuda.so.470.57.02 "$1/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  : >"$1/.dockerenv"
}

# NixOS: the driver link leads into the store.
layout_nixos() {
  local store=/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-graphics-drivers
  skeleton "$1" "$version"
  core "$1$store/lib"
  ln -sfn "$store" "$1/run/opengl-driver"
}
