package host_test

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/tinyelf"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	cuda := filepath.Join(dir, "usr/lib64/libcuda.so.535.261.03")
	os.MkdirAll(filepath.Dir(cuda), 0o755)
	os.WriteFile(cuda, tinyelf.Object{}.With(elf.DT_SONAME, "libcuda.so.1").Bytes(), 0o755)
	os.Symlink(filepath.Base(cuda), filepath.Join(filepath.Dir(cuda), "libcuda.so.1"))

	h := &host.Host{Root: sysroot.Root{Dir: dir}} // without a directory this machine
	m, err := host.MachineNamed("x86_64")
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := h.Find(m)
	if err != nil {
		fmt.Println(err) // and d.Rejected says what was not taken
		return
	}
	fmt.Println(d.Version, d.Directory, d.Source)
	for _, lib := range d.Libraries {
		fmt.Println(lib.Soname, lib.File)
	}
	// Output:
	// 535.261.03 /usr/lib64 Fedora, openSUSE, Arch, Gentoo; NVIDIA's installer
	// libcuda.so.1 /usr/lib64/libcuda.so.535.261.03
}
