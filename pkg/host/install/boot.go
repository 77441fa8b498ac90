package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/host/opened"
	"cuda-runpath/pkg/sysroot"
)

// BootFile is a file that makes a host set up the driver link again at each boot.
type BootFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// BootFiles returns what redoes an installation: lines for systemd-tmpfiles, which
// work at boot without hostDriver, and a unit that runs program (hostDriver's path)
// at boot and whenever ldconfig has written its cache again, as it does after an
// upgrade of the driver. /run, where the link lies, is empty after each boot. more are
// arguments of "install" that say where or what else than links to the driver: with them
// there are no lines, which can only link to what is right today.
func BootFiles(drivers []*host.Driver, prefix, program string, more ...string) []BootFile {
	var lines strings.Builder
	fmt.Fprintf(&lines, "# Links to the host's GPU driver for programs built with Nix. Made by: hostDriver tmpfiles\n")
	for _, d := range drivers {
		link := d.Link(prefix)
		fmt.Fprintf(&lines, "d %s 0755 root root -\n", specifier(path.Dir(link)))
		fmt.Fprintf(&lines, "d %s 0755 root root -\n", specifier(link))
		for _, e := range offer.Links(d).Entries {
			fmt.Fprintf(&lines, "L+ %s - - - - %s\n", specifier(path.Join(link, e.Name)), specifier(e.Target))
		}
	}
	flags := ""
	if prefix != host.DefaultPrefix && prefix != host.BesidePrefix {
		flags = " --prefix " + unitWord(prefix)
	}
	for _, word := range more {
		flags += " " + unitWord(word)
	}
	files := []BootFile{
		{"/etc/tmpfiles.d/hostDriver.conf", lines.String()},
		{"/etc/systemd/system/hostDriver.service", `[Unit]
Description=Links to the host's GPU driver for programs built with Nix
After=systemd-tmpfiles-setup.service local-fs.target

[Service]
Type=oneshot
ExecStart=` + specifier(program) + ` install` + flags + `

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
	if len(more) > 0 {
		return files[1:]
	}
	return files
}

// specifier writes a path for tmpfiles.d(5), where "%" begins a specifier. Whatever
// could end a word or a line, or is an escape itself, is written as one: \xHH is
// understood in paths and, unlike quotes, in the argument.
func specifier(name string) string { return strings.ReplaceAll(escaped(name), "%", "%%") }

// unitWord writes an argument of an ExecStart= line (systemd.syntax(7), systemd.service(5)), where "$" begins a variable;
// in the program's path it does not.
func unitWord(word string) string {
	return strings.NewReplacer("%", "%%", "$", "$$").Replace(escaped(word))
}

func escaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c == 0x7f || strings.IndexByte("\"'\\;", c) >= 0 {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// BootRoot opens a directory that stands for "/", which it makes if need be.
func BootRoot(dir string) (sysroot.Root, error) {
	if err := opened.MakeAll(dir, 0o755); err != nil {
		return sysroot.Root{}, err
	}
	return sysroot.Open(dir)
}

// WriteBootFile writes a file below a root, and returns
// where: its directory's links are followed as that system would follow them, so
// they do not lead out of it. A link in the file's own place stays, for
// somebody put it there (a masked unit leads to /dev/null).
func WriteBootFile(root sysroot.Root, f BootFile) (string, error) {
	top, err := opened.Top(root)
	if err != nil {
		return "", err
	}
	defer top.Close()
	inside := "/"
	for _, c := range strings.Split(strings.Trim(path.Dir(f.Path), "/"), "/") {
		next := path.Join(inside, c)
		at, err := root.Resolve(next)
		if errors.Is(err, fs.ErrNotExist) {
			var in *os.Root
			if in, err = opened.Below(top, inside); err == nil {
				err = opened.MakeIn(in, c)
				in.Close()
			}
			if at = next; errors.Is(err, fs.ErrExist) {
				if at, err = root.Resolve(next); err != nil {
					return "", fmt.Errorf("%s: a link that leads nowhere", next)
				}
			}
		}
		if err != nil {
			return "", err
		}
		inside = at
	}
	dir, err := opened.Below(top, inside)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	base := path.Base(f.Path)
	if target, err := dir.Readlink(base); err == nil {
		return "", fmt.Errorf("%s is a link to %s; hostDriver leaves it alone", f.Path, target)
	}
	return root.Path(path.Join(inside, base)), opened.WriteFile(dir, base, 0o644, []byte(f.Text))
}
