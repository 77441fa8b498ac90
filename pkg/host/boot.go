package host

import (
	"fmt"
	"path"
	"strings"
)

// BootFile is a file that makes a host set up the driver link again at each boot.
type BootFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// BootFiles returns what redoes an installation: lines for systemd-tmpfiles, which
// work at boot without hostDriver, and a unit that runs program (hostDriver's path)
// at boot and whenever ldconfig has written its cache anew, as it does after an
// upgrade of the driver. /run, where the link lies, is empty after each boot. With
// copies the unit installs these, and there are no lines, which can only link.
func (h *Host) BootFiles(drivers []*Driver, prefix, program string, copies bool) []BootFile {
	var lines strings.Builder
	fmt.Fprintf(&lines, "# Links to the host's GPU driver for programs built with Nix. Made by: hostDriver tmpfiles\n")
	for _, d := range drivers {
		link := d.machine.link(prefix)
		fmt.Fprintf(&lines, "d %s 0755 root root -\n", specifier(path.Dir(link)))
		fmt.Fprintf(&lines, "d %s 0755 root root -\n", specifier(link))
		for _, e := range d.Links().Entries {
			fmt.Fprintf(&lines, "L+ %s - - - - %s\n", specifier(path.Join(link, e.Name)), specifier(e.Target))
		}
	}
	flags := ""
	if prefix != DefaultPrefix {
		flags = " --prefix " + unitWord(prefix)
	}
	if copies {
		flags += " --copy"
	}
	files := []BootFile{
		{"/etc/tmpfiles.d/hostDriver.conf", lines.String()},
		{"/etc/systemd/system/hostDriver.service", `[Unit]
Description=Links to the host's GPU driver for programs built with Nix
After=systemd-tmpfiles-setup.service local-fs.target

[Service]
Type=oneshot
ExecStart=` + unitWord(program) + ` install` + flags + `

[Install]
WantedBy=multi-user.target
`},
		{"/etc/systemd/system/hostDriver.path", `[Unit]
Description=Notice upgrades of the GPU driver

[Path]
PathChanged=/etc/ld.so.cache

[Install]
WantedBy=multi-user.target
`},
	}
	if copies {
		return files[1:]
	}
	return files
}

// specifier escapes a path for tmpfiles.d(5), where "%" begins a specifier and blanks separate.
func specifier(name string) string {
	name = strings.ReplaceAll(name, "%", "%%")
	if strings.ContainsAny(name, " \t\"'\\") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`).Replace(name) + `"`
	}
	return name
}

// unitWord quotes a word of an ExecStart= line (systemd.syntax(7)).
func unitWord(word string) string {
	word = strings.NewReplacer("%", "%%", "$", "$$").Replace(word)
	if strings.ContainsAny(word, " \t\"'\\;") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
	}
	return word
}
