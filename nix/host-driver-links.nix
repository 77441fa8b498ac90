# Links to where `hostDriver install --beside` keeps the host's driver, for the packages of
# another module that owns /run/opengl-driver: nix-system-graphics' `extraPackages`, or the
# `paths` of Home Manager's targets.genericLinux.gpu.drivers. Those that a host's driver
# has no file for lead nowhere, and loaders pass over them.
{ runCommand }:
runCommand "hostDriver-links"
  {
    # The sonames that are the same for all drivers: pkg/driver/library.go.
    libraries = [
      "libcuda.so.1"
      "libcudadebugger.so.1"
      "libnvidia-ml.so.1"
      "libnvidia-nscq.so.2"
      "libnvidia-sandboxutils.so.1"
      "libnvidia-ptxjitcompiler.so.1"
      "libnvidia-nvvm.so.4"
      "libnvidia-nvvm70.so.4"
      "libnvidia-opencl.so.1"
      "libnvcuvid.so.1"
      "libnvidia-encode.so.1"
      "libnvidia-opticalflow.so.1"
      "libvdpau_nvidia.so.1"
      "libnvoptix.so.1"
      "libEGL_nvidia.so.0"
      "libGLX_nvidia.so.0"
      "libGLESv1_CM_nvidia.so.1"
      "libGLESv2_nvidia.so.2"
      "libnvidia-api.so.1"
      "libnvidia-egl-gbm.so.1"
      "libnvidia-egl-wayland.so.1"
      "libnvidia-egl-wayland2.so.1"
      "libnvidia-egl-xcb.so.1"
      "libnvidia-egl-xlib.so.1"
      "libnvidia-fbc.so.1"
      "libnvidia-ifr.so.1"
      "libnvidia-vksc-core.so.1"
      "libnvidia-wfb.so.1"
      "libnvidia-ngx.so.1"
      "libnvidia-allocator.so.1"
      "libnvidia-cfg.so.1"
    ];
    # As NVIDIA's installer and the distributions name them.
    files = [
      "lib/vdpau/libvdpau_nvidia.so.1"
      "lib/gbm/nvidia-drm_gbm.so"
      "share/vulkan/icd.d/nvidia_icd.json"
      "share/vulkan/icd.d/nvidia_icd.x86_64.json"
      "share/vulkan/icd.d/nvidia_icd.aarch64.json"
      "share/vulkan/implicit_layer.d/nvidia_layers.json"
      "share/glvnd/egl_vendor.d/10_nvidia.json"
      "share/egl/egl_external_platform.d/10_nvidia_wayland.json"
      "share/egl/egl_external_platform.d/15_nvidia_gbm.json"
      "share/egl/egl_external_platform.d/20_nvidia_xcb.json"
      "share/egl/egl_external_platform.d/20_nvidia_xlib.json"
      "etc/OpenCL/vendors/nvidia.icd"
      "share/nvidia/nvoptix.bin"
    ];
    meta.description = "Links to the host's GPU driver, for packages in /run/opengl-driver";
  }
  ''
    for library in $libraries; do files+=" lib/$library"; done
    for name in $files; do
      mkdir -p "$out/''${name%/*}"
      ln -s "/run/hostDriver/$name" "$out/$name"
    done
  ''
