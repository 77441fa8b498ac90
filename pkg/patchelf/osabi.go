package patchelf

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// osABIs are the values of EI_OSABI (gABI, "ELF Identification") with the name that
// --print-os-abi shows, and the others that --set-os-abi takes.
var osABIs = []struct {
	abi   elf.OSABI
	names []string
}{
	{elf.ELFOSABI_NONE, []string{"System V", "system-v", "sysv"}},
	{elf.ELFOSABI_HPUX, []string{"HP-UX"}},
	{elf.ELFOSABI_NETBSD, []string{"NetBSD"}},
	{elf.ELFOSABI_LINUX, []string{"Linux", "gnu"}},
	{elf.ELFOSABI_HURD, []string{"GNU Hurd", "gnu-hurd", "hurd"}},
	{elf.ELFOSABI_SOLARIS, []string{"Solaris"}},
	{elf.ELFOSABI_AIX, []string{"AIX"}},
	{elf.ELFOSABI_IRIX, []string{"IRIX"}},
	{elf.ELFOSABI_FREEBSD, []string{"FreeBSD"}},
	{elf.ELFOSABI_TRU64, []string{"Tru64"}},
	{elf.ELFOSABI_OPENBSD, []string{"OpenBSD"}},
	{elf.ELFOSABI_OPENVMS, []string{"OpenVMS"}},
}

// osABI returns the value that a name stands for, in any case, blanks around it ignored.
func osABI(name string) (byte, error) {
	name = strings.Trim(name, " \t\n\v\f\r")
	for _, o := range osABIs {
		for _, n := range o.names {
			if strings.EqualFold(n, name) {
				return byte(o.abi), nil
			}
		}
	}
	return 0, errors.New("unrecognized OS ABI")
}

func osABIName(abi elf.OSABI) string {
	for _, o := range osABIs {
		if o.abi == abi {
			return o.names[0]
		}
	}
	return fmt.Sprintf("0x%02X", byte(abi))
}
