package install

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/remedy"
)

const (
	units = "/etc/systemd/system/"
	// ServiceUnit makes the installation again at boot and after an upgrade of the driver, which PathUnit notices.
	ServiceUnit = "hostDriver.service"
	PathUnit    = "hostDriver.path"
)

// BootFiles returns what redoes an installation. A line for systemd-tmpfiles makes the link in /run, which is empty
// after each boot, and needs no hostDriver then. A unit runs the program, with words as what follows "install", at each
// boot, before anything that asks for nothing else starts (basic.target), and whenever ldconfig has written its cache
// again, as it does after an upgrade of the driver. links are the driver links.
func BootFiles(h *host.Host, s Site, links []string, program *Program, words ...string) ([]made.File, error) {
	var lines strings.Builder
	lines.WriteString(madeBy +
		"# Links to the host's GPU driver for programs built with Nix. What is there already stays.\n")
	if s.State == "" {
		links = nil
	}
	for _, link := range links {
		target, err := s.target(h, link)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&lines, "L %s - - - - %s\n", specifier(path.Dir(link)), specifier(target))
	}
	command := specifier(program.Path) + " install"
	for _, w := range words {
		command += " " + unitWord(w)
	}
	// What has to be mounted, as a store of Nix on a disk of its own. Words there know no escapes.
	mounts := ""
	for _, dir := range []string{path.Dir(program.Path), s.State} {
		if dir != "" && escaped(dir) == dir {
			mounts += " " + specifier(dir)
		}
	}
	files := append(program.Needs(),
		made.File{Path: units + ServiceUnit, Text: madeBy + `[Unit]
Description=The host's GPU driver for programs built with Nix
DefaultDependencies=no
RequiresMountsFor=` + strings.TrimSpace(mounts) + `
After=local-fs.target systemd-tmpfiles-setup.service systemd-modules-load.service
Before=basic.target shutdown.target
Conflicts=shutdown.target
# An upgrade may run ldconfig many times: by the usual limit, the path unit would fail, and notice none until the
# next boot.
StartLimitIntervalSec=0

[Service]
Type=oneshot
TimeoutStartSec=3min
ExecStart=` + command + `

[Install]
WantedBy=basic.target
`},
		made.File{Path: units + PathUnit, Text: madeBy + `[Unit]
Description=Notice upgrades of the GPU driver

[Path]
PathChanged=/etc/ld.so.cache

[Install]
WantedBy=multi-user.target
`},
		// As systemctl enable makes them.
		made.File{Path: units + "basic.target.wants/" + ServiceUnit, Link: units + ServiceUnit},
		made.File{Path: units + "multi-user.target.wants/" + PathUnit, Link: units + PathUnit})
	if s.State != "" {
		files = append([]made.File{{Path: host.TmpfilesConf, Text: lines.String()}}, files...)
	}
	return files, nil
}

const madeBy = made.Mark + " tmpfiles\n"

// Usual are the files that BootFiles returns wherever it is called, for what no record has.
var Usual = []string{host.TmpfilesConf, units + ServiceUnit, units + PathUnit}

// specifier writes a path for tmpfiles.d(5), where "%" begins a specifier. Whatever
// could end a word or a line, or is an escape itself, is written as one: \xHH is
// understood in paths and, unlike quotes, in the argument.
func specifier(name string) string { return strings.ReplaceAll(escaped(name), "%", "%%") }

// unitWord writes an argument of an ExecStart= line (systemd.syntax(7), systemd.service(5)), where "$" begins a
// variable; in the program's path it does not.
func unitWord(word string) string {
	return strings.NewReplacer("%", "%%", "$", "$$").Replace(escaped(word))
}

// escaped writes whatever could end a word or a line, is an escape itself, or is not [remedy.Seen], as \xHH.
func escaped(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == ' ' || strings.ContainsRune("\"'\\;", r) || !remedy.Seen(s[:n]) {
			for i := range n {
				fmt.Fprintf(&b, `\x%02x`, s[i])
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}
