# shellcheck shell=bash
# Sourced by tests/host/run. What the loaders of Vulkan, EGL and OpenCL, as Debian has them, open of a driver that is
# made up here and hidden from them, judged by strace. Debian's look in other directories than nixpkgs': in the namespace,
# their variables name those that are compiled into nixpkgs'.
: "${work:=}" "${hostDriver:=}"
declare -a nobody
vendors=$work/vendors
mkdir -p "$vendors"/usr/lib64 "$vendors"/usr/share/{vulkan/icd.d,vulkan/implicit_layer.d,glvnd/egl_vendor.d,egl/egl_external_platform.d} \
  "$vendors"/{run,sys/module/nvidia,proc/driver/nvidia,bin}
made_up() { # SONAME FUNCTION: a library that says nothing, and that loaders can open
  printf 'void *%s(void) { return 0; }\n' "$2" |
    gcc -shared -fPIC -Wl,-soname,"$1" -o "$vendors/usr/lib64/${1%.so.*}.so.535.1.2" -x c - &&
    ln -s "${1%.so.*}.so.535.1.2" "$vendors/usr/lib64/$1"
}
made_up libcuda.so.1 cuInit
made_up libGLX_nvidia.so.0 vk_icdGetInstanceProcAddr
made_up libEGL_nvidia.so.0 __egl_Main
made_up libnvidia-opencl.so.1 clGetExtensionFunctionAddress
made_up libnvidia-allocator.so.1 f
cp /bin/sh "$vendors/bin/sh"
echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "libGLX_nvidia.so.0", "api_version": "1.3.242"}}' >"$vendors/usr/share/vulkan/icd.d/nvidia_icd.json"
echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}' >"$vendors/usr/share/glvnd/egl_vendor.d/10_nvidia.json"

# opens PROGRAM LIBRARY METHOD VARIABLE…: does a program open a library of the driver's, below the directory that it is offered?
opens() {
  local program=$1 library=$2 method=$3 how=(env)
  if ! command -v "$program" >/dev/null; then
    skip "vendors: $program is not installed"
    return
  fi
  if [[ $method == namespace ]]; then
    [[ -n $namespaces ]] || { skip "vendors: $program in a namespace: ${why:-not allowed here}"; return; }
    how=(env "${@:4}")
  fi
  timeout 60 strace -f -qq -e trace=openat,open -o "$work/opened" \
    "${nobody[@]}" "$hostDriver" run --root "$vendors" --method "$method" -- "${how[@]}" "$program" >"$work/said" 2>&1 </dev/null
  like "vendors: run --method $method: $program opens the driver's $library" \
    "open(at)?\(.*\"[^\"]*(hostDriver/[0-9a-f]{32}|/run/opengl-driver/lib)/$library\", .*\) = [0-9]+" "$(grep -F "$library" "$work/opened")"
}
link_dir=/run/opengl-driver
# What a program opens is what doctor says that it asks for.
for asks in vulkaninfo:Vulkan eglinfo:EGL clinfo:OpenCL; do
  command -v "${asks%:*}" >/dev/null || continue
  like "vendors: doctor: ${asks%:*} uses ${asks#*:}" "(ok  |WARN)  ${asks#*:} +${asks%:*} asks for lib" \
    "$(hostDriver doctor -v --from "$vendors/usr/lib64" "$(command -v "${asks%:*}")")"
done
for method in library-path namespace; do
  opens vulkaninfo libGLX_nvidia.so.0 $method VK_DRIVER_FILES=$link_dir/share/vulkan/icd.d/nvidia_icd.json
  opens eglinfo libEGL_nvidia.so.0 $method __EGL_VENDOR_LIBRARY_DIRS=$link_dir/share/glvnd/egl_vendor.d
  opens clinfo libnvidia-opencl.so.1 $method OCL_ICD_VENDORS=$link_dir/etc/OpenCL/vendors
done
