package doctor

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
)

type tree = hosttest.Tree

const version = hosttest.Version

var lib, core, loaded = hosttest.Lib, hosttest.Core, hosttest.Loaded

// on returns the host that files make.
func on(t *testing.T, files tree) *host.Host {
	t.Helper()
	return &host.Host{Root: sysroot.Root{Dir: files.Make(t)}}
}

const nvrm = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " + version + "  Tue Jun  3 11:17:40 UTC 2025\n"

var devices = tree{"dev/nvidiactl": "(device)", "dev/nvidia0": "(device)", "dev/nvidia-uvm": "(device)"}

var copies = tree{"run/opengl-driver/lib/libcuda.so.1": "-> libcuda.so." + version, "run/opengl-driver/lib/libcuda.so." + version: lib("libcuda.so.1"),
	"run/opengl-driver/lib/libnvidia-ml.so.1": lib("libnvidia-ml.so.1"), "run/opengl-driver/lib/libnvidia-ptxjitcompiler.so.1": lib("libnvidia-ptxjitcompiler.so.1")}

// good is a host on which all is well.
var good = core("usr/lib64", version).With(devices).With(loaded(version)).With(tree{"proc/driver/nvidia/version": nvrm}).With(copies)

// What is said of hosts that are good, and of those on which something is wrong.
func TestDiagnosis(t *testing.T) {
	program := func(runPath string, needs ...string) tinyelf.Object {
		return tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.With(elf.DT_RUNPATH, runPath).Needs(needs...)
	}
	interp := tree{"lib64/ld-linux-x86-64.so.2": lib("ld-linux-x86-64.so.2"), "usr/lib/x86_64-linux-gnu/libc.so.6": lib("libc.so.6")}
	installed := func(version string) tree {
		copied := tinyelf.Object{}.With(elf.DT_SONAME, "libcuda.so.1").With(elf.DT_RUNPATH, "$ORIGIN").Bytes()
		return tree{"run/opengl-driver": "-> ../var/lib/hostDriver/opengl-driver", "var/lib/hostDriver/opengl-driver/lib": "-> .hostDriver-0",
			"var/lib/hostDriver/opengl-driver/.hostDriver-0/libcuda.so.1": "-> libcuda.so." + version, "var/lib/hostDriver/opengl-driver/.hostDriver-0/libcuda.so." + version: string(copied),
			"var/lib/hostDriver/opengl-driver/.hostDriver-0/libnvidia-ml.so.1": string(copied), "var/lib/hostDriver/opengl-driver/.hostDriver-0/libnvidia-ptxjitcompiler.so.1": string(copied),
			"etc/tmpfiles.d/hostDriver.conf": ""}
	}
	jax := tree{"v/pyvenv.cfg": "home = /usr/bin\n", "v/bin/python3.12": "-> /usr/bin/python3.12", "usr/bin/python3.12": program("", "libc.so.6"),
		"v/lib/python3.12/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so": lib("xla_cuda_plugin.so")}
	opens, libx, arm := program("/run/opengl-driver/lib:/opt", "libcuda.so.1", "libx.so", "libc.so.6"), lib("libx.so"), program("")
	opens.Data, libx.Data, arm.Machine = "x\x00libnvidia-encode.so.1\x00", "x\x00libnvidia-fbc.so.1\x00libnvidia-fatbinaryloader.so\x00", elf.EM_AARCH64
	whole := lib("libcuda.so.1")
	whole.Data = "x\x00libnvidia-nvvm70.so.4\x00libnvidia-gpucomp.so.580.1\x00"
	const either = "#!/bin/sh\nif [ \"$X\" = 1 ]; then /bin/sh \"$@\"; else /p \"$@\"; fi\n"
	musl := lib("libc.so")
	musl.Data = "musl libc\x00"
	newer, older := lib("libcuda.so.1", "libstdc++.so.6"), lib("libstdc++.so.6")
	newer.Requires, older.Defines = []tinyelf.Requirement{{Library: "libstdc++.so.6", Version: "GLIBCXX_3.4.30"}}, []string{"GLIBCXX_3.4.20"}
	for name, c := range map[string]struct {
		files   tree
		without string // that is taken out of files, or what begins so
		program string
		closed  string // a file that others may not read
		root    bool   // who asks is root
		works   bool
		unknown bool
		says    []string // VERDICT SUBJECT: TEXT, parts
		never   string   // a regular expression
		noFix   bool
	}{
		"good": {files: good, works: true, says: []string{"ok kernel module: nvidia " + version, "ok versions: kernel module and libraries match", "ok device nodes: /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia0: present and usable",
			"ok driver libraries: " + version + ", 3 libraries in /usr/lib64", "ok CUDA: the driver supports up to 12.2", "ok driver link: /run/opengl-driver/lib holds 4 names"}},
		"no driver":                 {files: devices, says: []string{"bad driver libraries: no NVIDIA driver found", "bad driver link: there is no /run/opengl-driver/lib, where programs from Nix find the driver"}},
		"no module":                 {files: good, without: "proc", works: true, says: []string{"ok kernel module: nvidia " + version}}, // /sys says it too
		"no module at all":          {files: core("usr/lib64", version).With(devices).With(copies), says: []string{"bad kernel module: not loaded"}},
		"no module, in a container": {files: core("usr/lib64", version).With(devices).With(copies).With(tree{".dockerenv": ""}), says: []string{"start the container with its GPUs"}},
		"no driver, in Apptainer":   {files: devices.With(tree{".singularity.d/libs/": nil, ".dockerenv": ""}), says: []string{"bad driver libraries: no NVIDIA driver found", "-> start the container with --nv (apptainer exec --nv"}},
		"no driver, in distrobox": {files: devices.With(core("run/host/usr/lib64", version)).With(tree{"run/.containerenv": ""}), says: []string{
			"bad driver libraries: no NVIDIA driver found: no libcuda.so.1 for x86_64 in the loader's cache or any of ", ": here, --from /run/host/usr/lib64 names the machine's own",
			"-> hostDriver run --from /run/host/usr/lib64 PROGRAM"}},
		"no driver, in a container": {files: devices.With(tree{"run/.containerenv": "", "run/host/usr/lib64/libcuda.so.1": "-> gone"}), says: []string{"bad driver libraries: no NVIDIA driver found", "-> start the container with its GPUs"}, never: "/run/host"},
		"two answers":               {files: good.With(loaded("545.23.06")), works: true, says: []string{"warning kernel module: /proc/driver/nvidia/version says " + version + ", /sys/module/nvidia/version says 545.23.06"}},
		"upgraded, not rebooted":    {files: core("usr/lib64", version).With(devices).With(loaded("525.60.13")), says: []string{"bad versions: the kernel module is 525.60.13, the libraries are " + version, "sudo rmmod"}},
		"an older library":          {files: core("usr/lib64", version).With(devices).With(loaded("545.23.06")).With(copies), says: []string{"install the libraries of driver 545.23.06", "bad driver link: /run/opengl-driver/lib leads to driver " + version + ", but the kernel module is 545.23.06"}},
		"no GPU":                    {files: good, without: "dev/nvidia0", says: []string{"bad device nodes: there is no GPU"}},
		"no uvm":                    {files: good, without: "dev/nvidia-uvm", says: []string{"bad device nodes: /dev/nvidia-uvm is missing [/dev] -> sudo nvidia-modprobe -u -c=0 (999)"}},
		"no uvm, before the first CUDA program": {files: good.With(tree{"usr/bin/nvidia-modprobe": "x"}), without: "dev/nvidia-uvm", works: true, says: []string{
			"note device nodes: /dev/nvidia-uvm is missing: the driver has /usr/bin/nvidia-modprobe, which is root's, make it when the first CUDA program starts"}, never: "nvidia-uvm.*present and usable"},
		"no uvm, in a container": {files: good.With(tree{"usr/bin/nvidia-modprobe": "x", ".dockerenv": ""}), without: "dev/nvidia-uvm", says: []string{
			"bad device nodes: /dev/nvidia-uvm is missing [/dev] -> start the container with its GPUs"}},
		"no uvm, as root": {files: good, without: "dev/nvidia-uvm", root: true, works: true, says: []string{
			"note device nodes: /dev/nvidia-uvm is missing: the driver, started by root, makes it when the first CUDA program starts"}},
		"no nodes, as root in a container": {files: good.With(tree{".dockerenv": ""}), without: "dev/", root: true, works: true, unknown: true, says: []string{
			"warning device nodes: there is no GPU: no /dev/nvidia0 or the like: the driver, started by root, makes it if the container may use it [/dev] -> start the container with its GPUs",
			"warning device nodes: /dev/nvidiactl is missing: the driver"}},
		"no nodes, as root, and no module": {files: core("usr/lib64", version).With(copies), root: true, says: []string{"bad device nodes: there is no GPU", "bad device nodes: /dev/nvidiactl is missing"}},
		"another device in a node's place": {files: good.With(tree{"proc/devices": "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n508 nvidia-uvm\n\nBlock devices:\n"}), says: []string{
			"bad device nodes: /dev/nvidiactl is not a device of NVIDIA's module", "(100)"}},
		"a wrapper that hides the GPU": {files: good.With(interp).With(tree{"p": program("/run/opengl-driver/lib", "libcuda.so.1", "libc.so.6"), "app": "#!/bin/sh\nexec env CUDA_VISIBLE_DEVICES=-1 /p\n"}), program: "/app",
			says: []string{"bad GPU: CUDA_VISIBLE_DEVICES=-1 leaves no GPU [/app] -> take CUDA_VISIBLE_DEVICES out of /app (100)"}},
		"a wrapper that hides the GPU of a program without CUDA": {files: good.With(interp).With(tree{"p": program("", "libc.so.6"), "app": "#!/bin/sh\nexec env CUDA_VISIBLE_DEVICES=-1 /p\n"}), program: "/app", works: true, never: "leaves no GPU"},
		"a wrapper that empties the list of GPUs": {files: good.With(interp).With(tree{"p": program("/run/opengl-driver/lib", "libcuda.so.1", "libc.so.6"), "app": "#!/bin/sh\nexport CUDA_VISIBLE_DEVICES=\nexec /p\n"}), program: "/app", works: true, unknown: true,
			says: []string{"warning GPU: /app: it is not known whether CUDA_VISIBLE_DEVICES is unset, or empty, which hides every GPU"}},
		"a file in a node's place": {files: good.With(tree{"dev/nvidia0": ""}), says: []string{"bad device nodes: /dev/nvidia0 is not a device"}},
		"a node for root":          {files: good, closed: "dev/nvidiactl", says: []string{"bad device nodes: you may not read and write /dev/nvidiactl (-rw-------)"}},
		"no link":                  {files: good, without: "run/", says: []string{"bad driver link: there is no /run/opengl-driver/lib, where programs from Nix find the driver", "sudo hostDriver install"}},
		"a link that dangles":      {files: good.With(tree{"run/opengl-driver/lib/libcuda.so.1": "-> gone"}), says: []string{"bad driver link: /run/opengl-driver/lib holds a dangling libcuda.so.1: gone is gone"}},
		"a text in the link":       {files: good.With(tree{"run/opengl-driver/lib/libcuda.so.1": "text"}), says: []string{"bad driver link: /run/opengl-driver/lib/libcuda.so.1: not an ELF file"}},
		"more in the link":         {files: good.With(tree{"run/opengl-driver/lib/libX11.so.6": "x"}), works: true, says: []string{"warning driver link: /run/opengl-driver/lib holds libraries that are not the driver's and hide the programs' own: libX11.so.6"}},
		"links":                    {files: good, works: true, says: []string{"warning driver link: /run/opengl-driver/lib holds links, and through links", "run-time compilation fails, and EGL", "sudo hostDriver install (221)"}},
		"copies of an old driver, the line alone": {files: core("usr/lib64", version).With(devices).With(loaded(version)).With(installed("525.60.13")), says: []string{
			"bad driver link: /run/opengl-driver/lib leads to driver 525.60.13, but the kernel module is " + version,
			"warning driver link: nothing but the line for tmpfiles.d renews it", "sudo hostDriver tmpfiles"}},
		"copies, the line alone": {files: core("usr/lib64", version).With(devices).With(loaded(version)).With(installed(version)), works: true, says: []string{
			"ok driver link: /run/opengl-driver/lib holds 4 names", "nothing but the line for tmpfiles.d renews it"}},
		"copies, and the unit": {files: core("usr/lib64", version).With(devices).With(loaded(version)).With(installed(version)).With(tree{"etc/systemd/system/hostDriver.service": ""}), works: true, says: []string{
			"ok driver link: /run/opengl-driver/lib holds 4 names"}, never: "only the line|holds links"},
		"no NVML, no compiler":      {files: good, without: "usr/lib64/libnvidia", works: true, says: []string{"warning driver libraries: no libnvidia-ml.so", "warning driver libraries: no libnvidia-ptxjitcompiler.so, so no PTX compiler (Triton, numba, code for a newer GPU than it was built for) [/usr/lib64] -> install it with the driver (Debian: libnvidia-ptxjitcompiler1) (221)"}},
		"a damaged library":         {files: good.With(tree{"usr/lib64/libnvidia-ml.so." + version: "text"}), works: true, says: []string{"warning driver libraries: /usr/lib64/libnvidia-ml.so.1 cannot be used: not an ELF file"}},
		"another driver":            {files: good.With(core("opt/driver", "525.60.13")).With(tree{"etc/ld.so.conf": "/opt/driver\n"}), works: true, says: []string{"note driver libraries: other drivers are in /opt/driver/libcuda.so.525.60.13"}},
		"something that is lacking": {files: good.With(tree{"usr/lib64/libGLX_nvidia.so." + version: lib("libGLX_nvidia.so.0", "libX11.so.6")}), works: true, says: []string{"note driver libraries: this host lacks libX11.so.6 (for libGLX_nvidia.so.0)"}},
		"WSL": {files: tree{"usr/lib/wsl/lib/libcuda.so.1": lib("libcuda.so.1"), "dev/dxg": "(device)", "run/opengl-driver/lib/libcuda.so.1": "-> /usr/lib/wsl/lib/libcuda.so.1"}, works: true,
			says: []string{"ok kernel module: none needed", "ok device nodes: /dev/dxg: present"}},
		"Jetson": {files: tree{"etc/nv_tegra_release": "x", "sys/module/nvgpu/x": "", "dev/nvmap": "(device)", "usr/lib64/libcuda.so.1": lib("libcuda.so.1")}.With(copies), works: true,
			says: []string{"ok kernel module: nvgpu (Jetson)", "note device nodes: /dev/nvhost-gpu is missing"}},
		"a link that is half made": {files: good, without: "run/opengl-driver/lib/libnvidia-", works: true, says: []string{
			"warning driver link: /run/opengl-driver/lib leads to /run/opengl-driver/lib/libcuda.so." + version + ", but lacks 2 of the driver's 3 libraries: libnvidia-ml.so.1, libnvidia-ptxjitcompiler.so.1 [/run/opengl-driver/lib] -> sudo hostDriver install"}},
		"a program without CUDA, and no driver": {files: interp.With(tree{"app": program("", "libc.so.6")}), program: "/app", works: true,
			says: []string{"warning driver libraries: no NVIDIA driver found", "warning kernel module", "note libcuda.so.1: neither it nor its libraries ask for CUDA or the driver"}},
		"a program with CUDA, and no driver": {files: interp.With(tree{"app": program("", "libc.so.6", "libcudart.so.12"), "usr/lib64/libcudart.so.12": lib("libcudart.so.12")}), program: "/app",
			says: []string{"bad driver libraries: no NVIDIA driver found", "bad libcuda.so.1: (if app opened it with dlopen): nowhere"}},
		"a program with a driver of its own": {files: devices.With(loaded(version)).With(interp).With(core("opt/mine", version)).With(tree{"app": program("/opt/mine", "libcuda.so.1", "libc.so.6")}), program: "/app", works: true,
			says: []string{"note driver libraries: no NVIDIA driver found", "the program finds the loaded kernel module's by itself"}},
		"a program with a driver of its own, another": {files: devices.With(loaded("545.23.06")).With(interp).With(core("opt/mine", version)).With(tree{"app": program("/opt/mine", "libcuda.so.1", "libc.so.6")}), program: "/app",
			says: []string{"bad driver libraries: no NVIDIA driver found"}},
		"a program with a driver of its own, of no version": {files: devices.With(loaded(version)).With(interp).With(tree{"opt/mine/libcuda.so.1": lib("libcuda.so.1"), "app": program("/opt/mine", "libcuda.so.1", "libc.so.6")}), program: "/app", works: true, unknown: true,
			says: []string{"warning driver libraries: /opt/mine/libcuda.so.1, which the program finds, may be of another version than the kernel module"}},
		"a program with a driver of its own, of no version, beside the host's": {files: good.With(interp).With(tree{"opt/mine/libcuda.so.1": lib("libcuda.so.1"), "app": program("/opt/mine", "libcuda.so.1", "libc.so.6")}), program: "/app", works: true, unknown: true,
			says: []string{"warning libcuda.so.1: /opt/mine/libcuda.so.1, which the program finds, may be of another version than the kernel module, and it is not the driver's in /usr/lib64"}},
		"a program with a stub, and no driver": {files: devices.With(loaded(version)).With(interp).With(core("opt/stubs", version)).With(tree{"app": program("/opt/stubs", "libcuda.so.1", "libc.so.6")}), program: "/app",
			says: []string{"bad driver libraries: no NVIDIA driver found"}},
		"a program of musl's": {files: good.With(tree{"lib/ld-musl-x86_64.so.1": musl, "app": tinyelf.Object{Interp: "/lib/ld-musl-x86_64.so.1"}}), program: "/app", works: true, says: []string{"note program: its loader is musl's"}},
		"a program of musl's with CUDA": {files: good.With(tree{"lib/ld-musl-x86_64.so.1": musl, "app": tinyelf.Object{Interp: "/lib/ld-musl-x86_64.so.1"}.Needs("libcuda.so.1")}), program: "/app",
			says: []string{"bad program: its loader is musl's"}},
		"AMD's GPU alone": {files: tree{"sys/bus/pci/devices/0000:03:00.0/vendor": "0x1002\n", "sys/bus/pci/devices/0000:03:00.0/class": "0x030000\n"},
			says: []string{"note GPU: this host has a GPU of AMD's and none of NVIDIA's: hostDriver is for NVIDIA's driver only"}, noFix: true, never: "modprobe|install the"},
		"a program with OpenGL, and no driver": {files: interp.With(tree{"app": program("", "libc.so.6", "libGL.so.1"), "usr/lib64/libGL.so.1": lib("libGL.so.1")}), program: "/app",
			says: []string{"bad driver libraries: no NVIDIA driver found"}},
		"a script that computes its program": {files: good.With(interp).With(tree{"bin/bash": program("", "libc.so.6"), "app": "#!/bin/bash\nexec \"$X\" \"$@\"\n"}), program: "/app", works: true, unknown: true,
			says: []string{"warning program: which program /app starts is not known", "note program: a script or wrapper that runs /bin/bash"}},
		"a script of Perl's": {files: good.With(interp).With(tree{"bin/perl": program("", "libc.so.6"), "app": "#!/bin/perl\n"}), program: "/app", works: true, unknown: true,
			says: []string{"warning program: which program /app starts is not known"}},
		"a script of Python's that a version manager starts": {files: good.With(interp).With(tree{"opt/mise": program("", "libc.so.6"), "opt/shims/python3": "-> ../mise", "app": "#!/opt/shims/python3\nimport ctypes\nctypes.CDLL('libcuda.so.1')\n"}), program: "/app", works: true, unknown: true,
			says: []string{"warning program: which program /opt/shims/python3 starts is not known"}},
		"a version manager in Python's place": {files: good.With(interp).With(tree{"opt/mise": tinyelf.Object{Type: elf.ET_EXEC}, "opt/shims/python3": "-> ../mise"}), program: "/opt/shims/python3", works: true, unknown: true,
			says: []string{"warning program: which program /opt/shims/python3 starts is not known"}},
		"one that is static, by a name of Python's": {files: good.With(interp).With(tree{"opt/python3": tinyelf.Object{Type: elf.ET_EXEC}, "app": "#!/opt/python3\nimport ctypes\nctypes.CDLL('libcuda.so.1')\n"}), program: "/app", works: true, unknown: true,
			says: []string{"warning program: which program /opt/python3 starts is not known"}},
		"a wrapper that computes where libraries are": {files: good.With(interp).With(tree{"p": program("", "libx.so"), "app": "#!/bin/bash\nexport LD_LIBRARY_PATH=$X/lib\nexec /p\n"}), program: "/app", works: true, unknown: true,
			says: []string{"warning program: a part of LD_LIBRARY_PATH, which /app computes, is not known", "warning program: libx.so, which the file needs, is not found"}},
		"a wrapper that reads another script": {files: good.With(interp).With(tree{"p": program("", "libx.so"), "app": "#!/bin/bash\n. /etc/setvars\nexec /p\n"}), program: "/app", works: true, unknown: true,
			says: []string{"warning program: what the scripts and commands that /app reads set is not known", "warning program: libx.so"}},
		"an interpreter without its loader": {files: good.With(tree{"v/pyvenv.cfg": "home = /usr/bin\n", "v/bin/python": "-> python3.12", "v/bin/python3.12": program("", "libc.so.6"), "v/lib/python3.12/site-packages/x/app": program("", "libc.so.6")}), program: "/v/bin/python",
			says: []string{"bad program: the program's loader, /lib64/ld-linux-x86-64.so.2, does not exist"}},
		"its environment, by a link": {files: good.With(tree{"v/pyvenv.cfg": "home = /usr/bin\n", "v/bin/python3.12": "-> /usr/bin/python3.12", "usr/bin/python3.12": program("", "libc.so.6"), "v/lib/python3.12/site-packages/x/": nil}), program: "/v",
			says: []string{"bad program: the program's loader, /lib64/ld-linux-x86-64.so.2, does not exist"}},
		"parts of the driver that are opened by name": {files: good.With(interp).With(tree{"app": opens, "opt/libx.so": libx}), program: "/app", works: true,
			says: []string{"warning libnvidia-encode.so.1: (app may open it with dlopen): nowhere", "note libnvidia-fbc.so.1: (libx.so may open it with dlopen): nowhere"}, never: "libnvidia-fbc.*-> [a-z]"},
		"the driver's own library": {files: good.With(interp).With(tree{"opt/compat/libcuda.so.580.1": whole}), program: "/opt/compat/libcuda.so.580.1", works: true, never: "nowhere"},
		"a wrapper for several machines": {files: good.With(interp).With(tree{"bin/sh": program("", "libc.so.6"), "p": program("", "libc.so.6"), "arm": arm,
			"app": "#!/bin/sh\nif [ \"$(uname -m)\" = x86_64 ]; then /p \"$@\"; else /arm \"$@\"; fi\n"}), program: "/app", works: true, says: []string{"note program: a script or wrapper that runs /p"}},
		"one that asks otherwise": {files: good.With(interp).With(tree{"bin/sh": program("", "libc.so.6"), "p": program("", "libc.so.6"), "arm": arm,
			"app": "#!/bin/sh\nif [ \"$(dpkg --print-architecture)\" = amd64 ]; then /p \"$@\"; else /arm \"$@\"; fi\n"}), program: "/app", works: true, unknown: true,
			says: []string{"warning program: which program /app starts is not known"}},
		"for another machine": {files: good.With(interp).With(tree{"app": arm}), program: "/app",
			says: []string{"bad program: is for another machine (EM_AARCH64), whose programs this one does not start"}},
		"for another machine, with an emulator": {files: good.With(interp).With(tree{"app": arm, "lib/ld-linux-aarch64.so.1": lib("ld-linux-aarch64.so.1"), "proc/sys/fs/binfmt_misc/qemu-aarch64": "enabled\n"}), program: "/app", works: true},
		"a script that lies in a package of an environment": {files: good.With(interp).With(jax).With(tree{"bin/sh": program("", "libc.so.6"), "p": program("", "libc.so.6"), "v/lib/python3.12/site-packages/x/bench.sh": either}), program: "/v", works: true,
			says: []string{"note program: which program /v/lib/python3.12/site-packages/x/bench.sh starts is not known"}},
		"a command of an environment": {files: good.With(interp).With(jax).With(tree{"bin/sh": program("", "libc.so.6"), "p": program("", "libc.so.6"), "v/bin/bench": either}), program: "/v", works: true, unknown: true,
			says: []string{"warning program: which program /v/bin/bench starts is not known"}},
		"JAX without an assembler": {files: good.With(interp).With(jax), program: "/v", works: true,
			says: []string{"warning JAX: it compiles with ptxas, which is in no wheel", "-> pip install nvidia-cuda-nvcc-cu12"}},
		"JAX with the wheel": {files: good.With(interp).With(jax).With(tree{"v/lib/python3.12/site-packages/nvidia/cuda_nvcc/bin/ptxas": ""}), program: "/v",
			works: true, never: "ptxas"},
		"JAX beside a toolkit":     {files: good.With(interp).With(jax).With(tree{"usr/local/cuda/bin/ptxas": ""}), program: "/v", works: true, never: "ptxas"},
		"a static program":         {files: tree{"app": tinyelf.Object{Type: elf.ET_EXEC, Interp: ""}}, program: "/app", works: true, says: []string{"note program: is static"}},
		"Nix builds, no hook":      {files: good.With(tree{"nix/store/x": ""}), works: true, says: []string{"note Nix builds: cannot see the GPU", "hostDriver sandbox"}},
		"Nix builds, our hook":     {files: good.With(tree{"nix/store/x": "", "h/hostDriver-sandbox": "", "etc/nix/nix.conf": "pre-build-hook = /h/hostDriver-sandbox\nsystem-features = cuda\n"}), works: true, says: []string{"ok Nix builds: get the GPU through /h/hostDriver-sandbox"}},
		"Nix builds, not asked":    {files: good.With(tree{"nix/store/x": "", "h/hostDriver-sandbox": "", "etc/nix/nix.conf": "pre-build-hook = /h/hostDriver-sandbox\n"}), works: true, says: []string{"warning Nix builds: get the GPU through", "include none of cuda, gpu"}},
		"Nix builds, a lost hook":  {files: good.With(tree{"nix/store/x": "", "etc/nix/nix.conf": "pre-build-hook = /gone\n"}), works: true, says: []string{"warning Nix builds: the pre-build-hook /gone does not exist"}},
		"Nix builds, another hook": {files: good.With(tree{"nix/store/x": "", "h/other": "", "etc/nix/nix.conf": "pre-build-hook = /h/other\n"}), works: true, says: []string{"note Nix builds: /h/other decides"}},
		"Nix builds, by paths":     {files: good.With(tree{"nix/store/x": "", "etc/nix/nix.conf": "extra-sandbox-paths = /dev/nvidia0\n"}), works: true, says: []string{"note Nix builds: all see the GPU"}},
		"Nix builds, no sandbox":   {files: good.With(tree{"nix/store/x": "", "etc/nix/nix.conf": "!include more\n", "etc/nix/more": "sandbox = false\n"}), works: true, says: []string{"note Nix builds: are not in a sandbox"}},
		"a nix.conf that is none":  {files: good.With(tree{"nix/store/x": "", "etc/nix/nix.conf/": nil}), works: true, says: []string{"note Nix builds: not a regular file"}},
		"a program": {files: good.With(interp).With(tree{"app": program("/run/opengl-driver/lib", "libcuda.so.1", "libc.so.6")}), program: "/app", works: true,
			says: []string{"ok libcuda.so.1: /run/opengl-driver/lib/libcuda.so.1, which is"}},
		"a program for a newer CUDA": {files: good.With(interp).With(tree{"app": program("/run/opengl-driver/lib:/opt", "libcuda.so.1", "libcudart.so.13"), "opt/libcudart.so.13": "-> libcudart.so.13.0.48",
			"opt/libcudart.so.13.0.48": lib("libcudart.so.13")}), program: "/app", says: []string{"bad CUDA runtime: built for CUDA 13.0, the driver supports 12.2: a compat package is needed (it needs 580.65.06 or newer)"}},
		"a program for an older CUDA": {files: good.With(interp).With(tree{"app": program("/run/opengl-driver/lib:/opt", "libcuda.so.1", "libcudart.so.12"), "opt/libcudart.so.12": "-> libcudart.so.12.1.9",
			"opt/libcudart.so.12.1.9": lib("libcudart.so.12")}), program: "/app", works: true, says: []string{"ok CUDA runtime: built for CUDA 12.1, and the driver supports 12.2"}},
		"a compat package that harms": {files: good.With(interp).With(tree{"app": program("/opt/compat:/run/opengl-driver/lib", "libcuda.so.1"), "opt/compat/libcuda.so.1": "-> libcuda.so.525.60.13",
			"opt/compat/libcuda.so.525.60.13": lib("libcuda.so.1")}), program: "/app", says: []string{"bad compat package: libcuda.so.1: the compat directory /opt/compat, which harms here: it is CUDA 12.0, 525.60.13"}},
		"a program that looks elsewhere": {files: good.With(interp).With(tree{"app": program("/nowhere", "libcuda.so.1")}), without: "usr/lib64/libcuda.so.1", program: "/app",
			says: []string{"bad libcuda.so.1: nowhere", "autoAddDriverRunpath"}},
		"a program that loads a stub": {files: good.With(interp).With(tree{"cuda/lib64/stubs/libcuda.so.1": lib("libcuda.so.1"), "app": program("/cuda/lib64/stubs:/run/opengl-driver/lib", "libcuda.so.1")}), program: "/app",
			says: []string{"bad libcuda.so.1: a stub, /cuda/lib64/stubs/libcuda.so.1", "stubReplace"}},
		"a program without its loader": {files: good.With(tree{"app": program("/run/opengl-driver/lib", "libcuda.so.1")}), program: "/app", says: []string{"bad program: the program's loader, /lib64/ld-linux-x86-64.so.2, does not exist", "to --interpreter of runpath edit"}, never: "LOADER"},
		"a note that its loader does not read": {files: good.With(interp).With(tree{"app": tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2", Resolution: "libc.so.6\x00?/x\x00\x00"}.With(elf.DT_RUNPATH, "/x").Needs("libc.so.6")}), program: "/app", works: true,
			says: []string{"note resolution note: it has a resolution note, which its loader /lib64/ld-linux-x86-64.so.2 does not read [/app] -> runpath cache remove"}},
		// The host's driver cannot be loaded beside it, however it is offered: no advice to start it so.
		"a program with a library too old for the driver": {files: good.With(interp).With(tree{"usr/lib64/libcuda.so." + version: newer, "run/opengl-driver/lib/libcuda.so." + version: newer,
			"opt/libstdc++.so.6": older, "app": program("/opt", "libcuda.so.1", "libstdc++.so.6")}), without: "usr/lib64/libcuda.so.1", program: "/app",
			says: []string{"bad libstdc++.so.6: the driver cannot be loaded into the program, not by hostDriver run either: the host's libcuda.so." + version + " needs GLIBCXX_3.4.30 of libstdc++.so.6, and the program's own, /opt/libstdc++.so.6, does not define it",
				"bad libcuda.so.1: nowhere. It comes with the host's driver, which is not in the default directories; on NixOS it never is. [/app] -> build the program with a newer libstdc++.so.6"}},
		"a program that is none":     {files: good, program: "/none", says: []string{"bad program: does not exist"}},
		"a program without its libc": {files: good.With(interp).With(tree{"app": program("/run/opengl-driver/lib", "libcuda.so.1", "libgone.so.1")}), program: "/app", says: []string{"libgone.so.1"}},
	} {
		files := tree{}
		for at, what := range c.files {
			if c.without == "" || !strings.HasPrefix(at, c.without) {
				files[at] = what
			}
		}
		h := on(t, files)
		for at := range devices {
			if _, ok := files[at]; ok {
				if err := os.Chmod(filepath.Join(h.Root.Dir, at), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, at := range []string{"dev/dxg", "dev/nvmap"} {
			_ = os.Chmod(filepath.Join(h.Root.Dir, at), 0o666)
		}
		_ = os.Chmod(filepath.Join(h.Root.Dir, "usr/bin/nvidia-modprobe"), os.ModeSetuid|0o755)
		if c.closed != "" {
			if err := os.Chmod(filepath.Join(h.Root.Dir, c.closed), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m, _ := host.MachineNamed("x86_64")
		d := (&Doctor{Host: h, Machine: m, Prefix: host.DefaultPrefix, AsRoot: c.root}).Diagnose(c.program)
		var said strings.Builder
		for _, f := range d.Facts {
			fmt.Fprintf(&said, "%s %s: %s [%s] -> %s (%d)\n", f.Verdict, f.Subject, f.Text, f.Source, f.Whole(), f.Error)
			if strings.Contains(f.Whole(), "--ignore") || f.Verdict == Bad && f.Whole() == "" && !c.noFix && f.Subject != "program" {
				t.Errorf("%s: no fix for: %s", name, f.Text)
			}
		}
		if (d.Unknown() != nil) != c.unknown {
			t.Errorf("%s: not known: %q\n%s", name, d.Unknown(), &said)
		}
		if d.Works != c.works {
			t.Errorf("%s: works: %v\n%s", name, d.Works, &said)
		}
		for _, want := range c.says {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: not said: %s\n%s", name, want, &said)
			}
		}
		if c.never != "" && regexp.MustCompile(c.never).MatchString(said.String()) {
			t.Errorf("%s: said: %s\n%s", name, c.never, &said)
		}
	}
}

// Which ways to use a GPU a program has, and whether the files that lead from there to the driver are there.
func TestInterfacesOfAProgram(t *testing.T) {
	const store = "nix/store/00000000000000000000000000000000-x/"
	interp := tree{store + "ld-linux-x86-64.so.2": lib("ld-linux-x86-64.so.2"), "lib64/ld-linux-x86-64.so.2": lib("ld-linux-x86-64.so.2"),
		store + "libc.so.6": lib("libc.so.6"), "usr/lib64/libc.so.6": lib("libc.so.6")}
	set := core("usr/lib64", version)
	for _, name := range []string{"libGLX_nvidia.so.0", "libEGL_nvidia.so.0", "libnvidia-opencl.so.1", "libnvidia-encode.so.1", "libvdpau_nvidia.so.1"} {
		set["usr/lib64/"+name] = lib(name)
	}
	set["usr/share/vulkan/icd.d/nvidia_icd.json"] = `{"file_format_version": "1.0.0", "ICD": {"library_path": "libGLX_nvidia.so.0", "api_version": "1.3"}}`
	link := tree{}
	for _, name := range []string{"libcuda.so.1", "libGLX_nvidia.so.0", "libEGL_nvidia.so.0", "libnvidia-opencl.so.1", "libnvidia-encode.so.1", "libvdpau_nvidia.so.1"} {
		link["run/opengl-driver/lib/"+name] = "-> /usr/lib64/" + name
	}
	link["run/opengl-driver/lib/vdpau/libvdpau_nvidia.so.1"] = "-> ../libvdpau_nvidia.so.1"
	link["run/opengl-driver/share/vulkan/icd.d/nvidia_icd.json"] = `{"ICD": {"library_path": "/run/opengl-driver/lib/libGLX_nvidia.so.0"}}`
	link["run/opengl-driver/share/glvnd/egl_vendor.d/10_nvidia.json"] = `{"ICD": {"library_path": "libEGL_nvidia.so.0"}}`
	link["run/opengl-driver/etc/OpenCL/vendors/nvidia.icd"] = "/run/opengl-driver/lib/libnvidia-opencl.so.1\n"
	program := func(interp, text string, needs ...string) tinyelf.Object {
		return tinyelf.Object{Interp: interp, Data: text}.With(elf.DT_RUNPATH, "/"+store).Needs(needs...)
	}
	front := func(names ...string) tree {
		files := tree{}
		for _, name := range names {
			files[store+name], files["usr/lib64/"+name] = lib(name), lib(name)
		}
		return files
	}
	all := front("libGL.so.1", "libEGL.so.1", "libOpenCL.so.1", "libvdpau.so.1", "libva.so.2")
	nix := program("/"+store+"ld-linux-x86-64.so.2", "x\x00libvulkan.so.1\x00", "libGL.so.1", "libEGL.so.1", "libOpenCL.so.1", "libvdpau.so.1", "libva.so.2", "libc.so.6")
	native := program("/lib64/ld-linux-x86-64.so.2", "x\x00libvulkan.so.1\x00", "libGL.so.1", "libEGL.so.1", "libc.so.6")
	modules := program("/lib64/ld-linux-x86-64.so.2", "", "libva.so.2", "libgbm.so.1", "libc.so.6")
	for name, c := range map[string]struct {
		files tree
		says  []string
	}{
		"from Nix, all there": {set.With(link).With(all).With(tree{"app": nix}), []string{
			"ok OpenGL: app asks for libGL.so.1, which finds /run/opengl-driver/lib/libGLX_nvidia.so.0",
			"ok EGL: app asks for libEGL.so.1, which finds /run/opengl-driver/share/glvnd/egl_vendor.d/10_nvidia.json",
			"ok Vulkan: app asks for libvulkan.so.1, which finds /run/opengl-driver/share/vulkan/icd.d/nvidia_icd.json",
			"ok OpenCL: app asks for libOpenCL.so.1, which finds /run/opengl-driver/etc/OpenCL/vendors/nvidia.icd",
			"ok VDPAU: app asks for libvdpau.so.1, which finds /run/opengl-driver/lib/vdpau/libvdpau_nvidia.so.1",
			"note VA-API: app asks for libva.so.2, for which NVIDIA's driver has no nvidia_drv_video.so"}},
		"from Nix, nothing installed": {set.With(all).With(tree{"app": nix}), []string{
			"warning OpenGL: app asks for libGL.so.1, and finds no libGLX_nvidia.so.0 [] -> hostDriver run /app, or for all programs: sudo hostDriver install",
			"warning EGL: app asks for libEGL.so.1, and finds no libEGL_nvidia.so.0 by a file in share/glvnd/egl_vendor.d",
			"warning Vulkan: app asks for libvulkan.so.1, and finds no file of the driver's in share/vulkan/icd.d"}},
		"links to libraries that load others": {set.With(link).With(all).With(tree{"app": nix, "usr/lib64/libGLX_nvidia.so.0": lib("libGLX_nvidia.so.0", "libX11.so.6"), "usr/lib64/libX11.so.6": lib("libX11.so.6"),
			"usr/lib64/libnvidia-opencl.so.1": tinyelf.Object{Data: "x\x00libcuda.so.1\x00"}.With(elf.DT_SONAME, "libnvidia-opencl.so.1"), "usr/lib64/libEGL_nvidia.so.0": lib("libEGL_nvidia.so.0", "libnvidia-ml.so.1").With(elf.DT_RUNPATH, "/usr/lib64")}), []string{
			"warning OpenGL: app asks for libGL.so.1, which finds /run/opengl-driver/lib/libGLX_nvidia.so.0, but that does not find libX11.so.6 [/run/opengl-driver/lib/libGLX_nvidia.so.0] -> sudo hostDriver install, or: hostDriver run /app",
			"warning Vulkan: app asks for libvulkan.so.1, which finds /run/opengl-driver/share/vulkan/icd.d/nvidia_icd.json, but libGLX_nvidia.so.0 does not find libX11.so.6",
			"warning OpenCL: app asks for libOpenCL.so.1, which finds /run/opengl-driver/etc/OpenCL/vendors/nvidia.icd, but libnvidia-opencl.so.1 opens libcuda.so.1 by its bare name, which a loader from Nix does not find: what needs it fails",
			"ok EGL: ", "ok VDPAU: "}},
		"Vulkan without libglvnd": {set.With(link).With(tree{"app": program("/"+store+"ld-linux-x86-64.so.2", "x\x00libvulkan.so.1\x00", "libc.so.6"),
			"usr/lib64/libGLX_nvidia.so.0": tinyelf.Object{Data: "x\x00libEGL.so.1\x00"}.With(elf.DT_SONAME, "libGLX_nvidia.so.0").With(elf.DT_RUNPATH, "/usr/lib64")}), []string{
			"warning Vulkan: app asks for libvulkan.so.1, which finds /run/opengl-driver/share/vulkan/icd.d/nvidia_icd.json, but the driver opens libEGL.so.1, and this host has none"}},
		"a file that leads nowhere": {set.With(link).With(all).With(tree{"app": nix, "run/opengl-driver/share/vulkan/icd.d/nvidia_icd.json": `{"ICD": {"library_path": "/gone/libGLX_nvidia.so.0"}}`}),
			[]string{"warning Vulkan: app asks for libvulkan.so.1, and finds no file"}},
		"a driver without it": {core("usr/lib64", version).With(link).With(all).With(tree{"app": nix}), []string{"warning EGL: app asks for libEGL.so.1, and there is no libEGL_nvidia.so.0 by a file in share/glvnd/egl_vendor.d on this host",
			"warning Vulkan: app asks for libvulkan.so.1, and there is no file of the driver's in share/vulkan/icd.d on this host"}},
		"the host's own program": {set.With(all).With(tree{"app": native}), []string{"ok OpenGL: app asks for libGL.so.1, which finds /usr/lib64/libGLX_nvidia.so.0",
			"ok Vulkan: app asks for libvulkan.so.1, which finds /usr/share/vulkan/icd.d/nvidia_icd.json", "warning EGL: app asks for libEGL.so.1, and finds no libEGL_nvidia.so.0 by a file"}},
		"modules of the host's, Debian's directory": {set.With(front("libva.so.2", "libgbm.so.1", "libnvidia-allocator.so.1")).With(tree{"app": modules,
			"usr/lib/x86_64-linux-gnu/dri/nvidia_drv_video.so": lib("nvidia_drv_video.so"), "usr/lib/x86_64-linux-gnu/gbm/nvidia-drm_gbm.so": lib("libnvidia-allocator.so.1")}), []string{
			"ok VA-API: app asks for libva.so.2, which finds /usr/lib/x86_64-linux-gnu/dri/nvidia_drv_video.so",
			"ok GBM: app asks for libgbm.so.1, which finds /usr/lib/x86_64-linux-gnu/gbm/nvidia-drm_gbm.so"}},
		"modules of another machine's, or none": {set.With(front("libva.so.2", "libgbm.so.1", "libnvidia-allocator.so.1")).With(tree{"app": modules,
			"usr/lib32/dri/nvidia_drv_video.so": lib("nvidia_drv_video.so")}), []string{
			"note VA-API: app asks for libva.so.2, for which NVIDIA's driver has no nvidia_drv_video.so",
			"warning GBM: app asks for libgbm.so.1, and finds no libnvidia-allocator.so.1 by gbm/nvidia-drm_gbm.so [] -> install that part of the driver"}},
		"a name in a library": {set.With(tree{"app": program("/"+store+"ld-linux-x86-64.so.2", "", "liba.so"), store + "liba.so": tinyelf.Object{Data: "x\x00libnvidia-encode.so.1\x00"}.With(elf.DT_SONAME, "liba.so")}),
			[]string{"note NVENC: liba.so may open libnvidia-encode.so.1, and finds no libnvidia-encode.so.1"}},
	} {
		h := on(t, c.files.With(interp))
		m, _ := host.MachineNamed("x86_64")
		d := (&Doctor{Host: h, Machine: m, Prefix: host.DefaultPrefix}).Diagnose("/app")
		var said strings.Builder
		for _, f := range d.Facts {
			fmt.Fprintf(&said, "%s %s: %s [%s] -> %s\n", f.Verdict, f.Subject, f.Text, f.Source, f.Whole())
		}
		for _, want := range c.says {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: not said: %s\n%s", name, want, &said)
			}
		}
	}
}

// Where programs that start here get the driver by the environment, as nixGL gives it, that is what counts, and what it costs is said.
func TestDriverByTheEnvironment(t *testing.T) {
	m, err := host.MachineOf(sysroot.Root{})
	if err != nil || m.Name != "x86_64" {
		t.Skip("the libraries are for x86-64: ", err)
	}
	dir := on(t, core("lib", version).With(tree{"other/libnvidia-ml.so.1": lib("libnvidia-ml.so.1")})).Root.Dir
	app := filepath.Join(dir, "app")
	if err := os.WriteFile(app, tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs("libcuda.so.1").Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ variable, value, says string }{
		"nothing":         {"LD_LIBRARY_PATH", "", "bad libcuda.so.1"},
		"a directory":     {"LD_LIBRARY_PATH", dir + "/other:" + dir + "/lib", "note LD_LIBRARY_PATH: programs started from here, and those that they start, find " + dir + "/lib/libcuda.so.1 through it; everything else in " + dir + "/lib also comes"},
		"a library":       {"LD_PRELOAD", dir + "/lib/libcuda.so.1", "note LD_PRELOAD: programs started from here, and those that they start, load " + dir + "/lib/libcuda.so.1 first"},
		"one without it":  {"LD_LIBRARY_PATH", dir + "/other", "bad libcuda.so.1"},
		"a relative path": {"LD_PRELOAD", "libcuda.so.1", "bad libcuda.so.1"},
		"an empty entry":  {"LD_LIBRARY_PATH", ":", "bad libcuda.so.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LD_LIBRARY_PATH", "")
			t.Setenv("LD_PRELOAD", "")
			t.Setenv(c.variable, c.value)
			h := &host.Host{From: []string{dir + "/lib"}}
			d := (&Doctor{Host: h, Machine: m, Prefix: dir + "/none"}).Diagnose(app)
			var said strings.Builder
			for _, f := range d.Facts {
				fmt.Fprintf(&said, "%s %s: %s\n", f.Verdict, f.Subject, f.Text)
			}
			if !strings.Contains(said.String(), c.says) || strings.Contains(said.String(), "ok libcuda.so.1: "+dir) != strings.HasPrefix(c.says, "note") {
				t.Errorf("%s", &said)
			}
		})
	}
}

// What a stranger reads on hosts of all kinds is true there.
func TestSentencesOfHosts(t *testing.T) {
	devices := tree{"dev/nvidiactl": "(device)", "dev/nvidia0": "(device)", "dev/nvidia-uvm": "(device)"}.With(loaded(version))
	program := func(needs ...string) tinyelf.Object {
		return tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs(append(needs, "libc.so.6")...)
	}
	interp := tree{"lib64/ld-linux-x86-64.so.2": lib("ld-linux-x86-64.so.2"), "usr/lib/x86_64-linux-gnu/libc.so.6": lib("libc.so.6")}
	volume := core("usr/local/nvidia/lib64", version).With(devices).With(interp).With(tree{
		"usr/local/nvidia/lib64/libGLX_nvidia.so.0": lib("libGLX_nvidia.so.0"), "usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json": `{"ICD": {"library_path": "libGLX_nvidia.so.0"}}`})
	store := "nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-graphics-drivers"
	for name, c := range map[string]struct {
		files   tree
		program string
		own     bool // the host's own programs can work
		says    string
		not     string
	}{
		"a driver where the host finds it": {core("usr/lib64", version).With(devices), "", true, "bad driver link: there is no /run/opengl-driver/lib, where programs from Nix find the driver", ""},
		"a volume":                         {volume, "", false, "bad driver link", ""},
		"a volume, and Vulkan": {volume.With(tree{"usr/lib64/libvulkan.so.1": lib("libvulkan.so.1"), "app": program("libvulkan.so.1")}), "/app", false,
			"warning Vulkan: app asks for libvulkan.so.1, and does not find /usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json: the host's loaders do not look there -> start it with VK_ADD_DRIVER_FILES=/usr/local", "ok Vulkan"},
		"two drivers": {core("usr/lib/x86_64-linux-gnu", "580.95.05").With(core("usr/lib64", version)).With(devices).With(interp).With(tree{"app": program("libcuda.so.1")}), "/app", false,
			"-> hostDriver run /app, or remove that driver", "/app, or for all programs"},
		"NixOS, builds": {core(store+"/lib", version).With(devices).With(tree{"run/opengl-driver": "-> /" + store, "etc/NIXOS": ""}), "", false,
			"note Nix builds: cannot see the GPU -> programs.nix-required-mounts.enable", "hostDriver sandbox"},
		"a container without GPUs": {interp.With(tree{".dockerenv": ""}), "", false, "bad driver libraries: no NVIDIA driver found: no libcuda.so.1 for x86_64 in the loader's cache or any of 3 known places; --from DIR names another -> start the container with its GPUs", "nvidia-modprobe"},
		"a program without CUDA":   {volume.With(tree{"app": program()}), "/app", false, "note libcuda.so.1: neither it nor its libraries ask for CUDA", "CUDA runtime"},
	} {
		h := on(t, c.files)
		m, _ := host.MachineNamed("x86_64")
		d := (&Doctor{Host: h, Machine: m, Prefix: host.DefaultPrefix}).Diagnose(c.program)
		var said strings.Builder
		for _, f := range d.Facts {
			fmt.Fprintf(&said, "%s %s: %s -> %s\n", f.Verdict, f.Subject, f.Text, f.Whole())
		}
		if !strings.Contains(said.String(), c.says) || c.not != "" && strings.Contains(said.String(), c.not) || c.program == "" && d.HostWorks != c.own && name != "NixOS, builds" {
			t.Errorf("%s: the host's own: %v\n%s", name, d.HostWorks, &said)
		}
	}
}

// Scripts in a directory of which it is not known how they start their programs are one line where they are alike, also where
// that program does not ask for the driver as far as it is known. What a place holds is known only if all of its starts are.
func TestUnknownStartsOfADirectory(t *testing.T) {
	program := func(needs ...string) tinyelf.Object {
		return tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs(append(needs, "libc.so.6")...)
	}
	script := func(program string) string { return "#!/bin/sh\n. /etc/settings\nexec /d/" + program + " \"$@\"\n" }
	const chooses = "#!/bin/sh\nif [ -e \"$X\" ]; then exec /d/tool; fi\nexec /d/other\n"
	h := on(t, core("usr/lib64", version).With(tree{"lib64/ld-linux-x86-64.so.2": lib("ld-linux-x86-64.so.2"), "usr/lib/x86_64-linux-gnu/libc.so.6": lib("libc.so.6"), "d/other": program(),
		"bin/sh": program(), "d/any": chooses, "d/some": chooses, "d/app": program("libcuda.so.1"), "d/tool": program(), "d/one": script("app"), "d/two": script("app"), "d/three": script("tool"), "d/four": script("tool")}))
	m, _ := host.MachineNamed("x86_64")
	d := (&Doctor{Host: h, Machine: m, Prefix: host.DefaultPrefix}).Diagnose("/d")
	lines, _, _ := d.Needed()
	var said []string
	for _, l := range lines {
		if strings.Contains(l.Text, "not known") {
			said = append(said, fmt.Sprint(l.Verdict, " ", l.Text, " ", l.Likewise))
		}
	}
	want := []string{"warning which program /d/any starts is not known [/d/some]", // which may ask
		"warning what the scripts and commands that /d/four reads set is not known [/d/one /d/three /d/two]"}
	if !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
}

// What lies beside the programs of a directory keeps none of them from working: a compat package's own libraries, which are no
// starts, and programs for another machine. Programs that lack the same part of the driver are one line.
func TestWhatIsNoStartOfADirectory(t *testing.T) {
	program := func(interp string, needs ...string) tinyelf.Object {
		return tinyelf.Object{Interp: interp}.Needs(append(needs, "libc.so.6")...)
	}
	const native = "/lib64/ld-linux-x86-64.so.2"
	arm := program("/lib/ld-linux-aarch64.so.1", "libcuda.so.1")
	arm.Machine = elf.EM_AARCH64
	compat := lib("libcuda.so.1")
	compat.Data = "x\x00libnvidia-gpucomp.so.550.1\x00libnvidia-nvvm70.so.4\x00libcuda.so.1\x00"
	app := program(native, "libcuda.so.1").With(elf.DT_RUNPATH, "/run/opengl-driver/lib")
	front := lib("libEGL.so.1")
	h := on(t, good.With(tree{"lib64/ld-linux-x86-64.so.2": lib("ld-linux-x86-64.so.2"), "usr/lib/x86_64-linux-gnu/libc.so.6": lib("libc.so.6"),
		"usr/lib/x86_64-linux-gnu/libEGL.so.1": front, "d/app": app, "d/compat/libcuda.so.550.1": compat, "d/compat/libcuda.so.1": "-> libcuda.so.550.1", "d/arm/app": arm,
		"d/bin/one": app.Needs("libEGL.so.1"), "d/bin/two": app.Needs("libEGL.so.1"), "d/bin/three": app.Needs("libEGL.so.1")}))
	m, _ := host.MachineNamed("x86_64")
	d := (&Doctor{Host: h, Machine: m, Prefix: host.DefaultPrefix}).Diagnose("/d")
	var all, egl []string
	for _, f := range d.Facts {
		all = append(all, fmt.Sprint(f.Verdict, " ", f.Subject, ": ", f.Text))
	}
	said := strings.Join(all, "\n")
	if !d.Works || !strings.Contains(said, "note starts: for another machine, and so in nobody's way here: /d/arm/app") || strings.Contains(said, "gpucomp") || strings.Contains(said, "nowhere") {
		t.Errorf("works: %v\n%s", d.Works, said)
	}
	lines, _, _ := d.Needed()
	for _, l := range lines {
		if l.Subject == "EGL" {
			egl = append(egl, fmt.Sprint(l.Text, " ", l.Likewise))
		}
	}
	if want := []string{"/d/bin/one asks for libEGL.so.1, and there is no libEGL_nvidia.so.0 by a file in share/glvnd/egl_vendor.d on this host [/d/bin/three /d/bin/two]"}; !slices.Equal(egl, want) {
		t.Errorf("%q, want %q", egl, want)
	}
}

// Under a limit of the address space below the host's memory nobody knows whether CUDA starts.
func TestLimitOfTheAddressSpace(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &old); err != nil || old.Cur != unix.RLIM_INFINITY {
		t.Fatalf("the limit here: %d, %v", old.Cur, err)
	}
	said := func() *Diagnosis {
		d := &Diagnosis{Works: true}
		(&Doctor{Host: &host.Host{}}).checkLimit(d, &host.Driver{})
		return d
	}
	if d := said(); len(d.Facts) != 0 {
		t.Errorf("without a limit: %v", d.Facts)
	}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 4 << 30, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_AS, &old) //nolint:errcheck // as it was
	if d := said(); len(d.Unknown()) != 1 || d.Facts[0].Verdict != Warning {
		t.Errorf("with 4 GB: %v", d.Facts)
	}
}

// getconf asks the C library itself.
func TestVersionOfTheHostsGLIBC(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("getconf", "GNU_LIBC_VERSION").Output()
	want, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "glibc ")
	if err != nil || !ok {
		t.Skip("no glibc here")
	}
	h := &Doctor{Host: &host.Host{}}
	if h.Machine, err = host.MachineOf(h.Root); err != nil {
		t.Fatal(err)
	}
	if got := h.hostGLIBC(); got != want {
		t.Errorf("the host's glibc is %q, want %q", got, want)
	}
	program, err := exec.LookPath("getconf")
	if err != nil {
		t.Fatal(err)
	}
	if got := h.needsGLIBC(program); got == "" || forwardcompat.Newer(got, want) {
		t.Errorf("%s needs glibc %q, of %s", program, got, want)
	}
	if got := h.needsGLIBC("/etc/passwd"); got != "" {
		t.Errorf("a text needs glibc %q", got)
	}
}

// A GPU that the table does not know is named, with what to do.
func TestGPUThatTheTableDoesNotKnow(t *testing.T) {
	const at = "sys/bus/pci/devices/0000:02:00.0/"
	h := &Doctor{Host: on(t, tree{at + "vendor": "0x10de\n", at + "device": "0xffff\n", at + "class": "0x030200\n"})}
	d := &Diagnosis{}
	h.checkGPUs(d, &host.Driver{})
	if f := d.Facts[0]; len(d.Facts) != 1 || f.Verdict != Note || f.Text != "PCI device 10de:ffff, whose compute capability is not known" {
		t.Errorf("%+v", d.Facts)
	}
}

// A link of another root that leads out of it is nobody's: hostDriver may make its own there.
func TestInstallingWhereALinkLeadsOutside(t *testing.T) {
	outside := t.TempDir()
	if err := os.Symlink("/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-non-nixos-gpu", filepath.Join(outside, "opengl-driver")); err != nil {
		t.Fatal(err)
	}
	m, _ := host.MachineNamed("x86_64")
	h := &Doctor{Host: on(t, tree{"run": "-> " + outside, "usr/lib64": "-> " + outside}), Machine: m, Prefix: host.DefaultPrefix}
	if got := h.installing(); got != "sudo hostDriver install" {
		t.Error(got)
	}
}

// A program whose library calls the driver, which nothing brings, asks for it: bound at once it cannot work, lazily that is not known.
func TestCallOfTheDriverThatNothingBrings(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	h := on(t, core("usr/lib64", version).With(loaded(version)))
	copied := func(from, to string) {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Skip(err)
		}
		os.MkdirAll(filepath.Dir(h.Root.Dir+to), 0o755)
		os.WriteFile(h.Root.Dir+to, data, 0o755)
	}
	libc, _ := exec.Command("gcc", "-print-file-name=libc.so.6").Output()
	copied("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2")
	copied(strings.TrimSpace(string(libc)), "/lib64/libc.so.6")
	build := func(source string, flags ...string) {
		cmd := exec.Command("gcc", append([]string{"-xc", "-", "-xnone", "-Wl,--unresolved-symbols=ignore-all,-rpath,$ORIGIN:/lib64"}, flags...)...)
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	script := filepath.Join(t.TempDir(), "versions")
	os.WriteFile(script, []byte("V_1{global:f;};"), 0o644)
	version, _ := exec.Command("getconf", "GNU_LIBC_VERSION").Output()
	older := forwardcompat.Newer("2.41", strings.TrimPrefix(strings.TrimSpace(string(version)), "glibc "))
	for bound, want := range map[string]Verdict{"now": Bad, "lazy": Warning} {
		at := h.Root.Dir + "/" + bound
		os.Mkdir(at, 0o755)
		build("int cuInit(unsigned);int g(void){return cuInit(0);}", "-shared", "-fPIC", "-Wl,-soname,libg.so,-z,"+bound, "-o", at+"/libg.so")
		build("int g(void);int main(void){return g();}", "-o", at+"/p", at+"/libg.so")
		m, _ := host.MachineNamed("x86_64")
		d := (&Doctor{Host: h, Machine: m, Prefix: host.DefaultPrefix}).Diagnose("/" + bound + "/p")
		i := slices.IndexFunc(d.Facts, func(f Fact) bool { return f.Kind == finding.UndefinedSymbol })
		if i < 0 || !d.Asks || d.Facts[i].Verdict != want || d.Facts[i].unknown != (want == Warning) {
			t.Errorf("%s: asks %v: %+v", bound, d.Asks, d.Facts)
		}
		// So is a version of a library that has none, at which glibc before 2.41 ends the process where it binds the symbol.
		build("int f(void){return 0;}", "-shared", "-fPIC", "-Wl,-soname,libv.so,--version-script="+script, "-o", at+"/libv.so")
		build("int f(void);int main(int n,char**v){return n>1?f():0;}", "-Wl,-z,"+bound, "-o", at+"/q", at+"/libv.so")
		build("int f(void){return 0;}", "-shared", "-fPIC", "-Wl,-soname,libv.so", "-o", at+"/libv.so")
		d = (&Doctor{Host: h, Machine: m, Prefix: host.DefaultPrefix}).Diagnose("/" + bound + "/q")
		i = slices.IndexFunc(d.Facts, func(f Fact) bool { return f.Kind == finding.MissingVersion })
		if i >= 0 && (d.Facts[i].Verdict != want || d.Facts[i].unknown != (want == Warning)) || i < 0 && older {
			t.Errorf("%s: %+v", bound, d.Facts)
		}
	}
}
