package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
)

// A sight is what programs see of a site: the link that stands for a driver link's directory, or that directory.
type sight struct {
	h    *host.Host
	site Site
	link string   // the driver link
	in   *os.Root // the directory that its directory is in
	name string   // its name there

	want string // what the link is to lead to, "" where there is to be none
	have string // what it leads to
	// target is the directory that it leads to, if hostDriver made it; directory says that a directory is there in its
	// place.
	target    string
	directory bool
	action    string // what is to be done: "made", "replaced", "" for nothing
}

// look says what programs see of a site. The error is for what is somebody else's.
func (s Site) look(h *host.Host, link string) (*sight, error) {
	at := path.Dir(link)
	in, _, err := h.Root.OpenRoot(path.Dir(at))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	v := &sight{h: h, site: s, link: link, in: in, name: path.Base(at)}
	if s.State != "" {
		v.want, err = s.target(h, link)
	}
	if err == nil {
		err = v.again()
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return v, nil
}

// unseen is a sight of what is not there, nor the directory that it was in.
func (s Site) unseen(h *host.Host, link string) *sight { return &sight{h: h, site: s, link: link} }

func (v *sight) close() {
	if v.in != nil {
		v.in.Close()
	}
}

// again looks once more.
func (v *sight) again() error {
	v.target, v.directory, v.action = "", false, ""
	at := path.Dir(v.link)
	target, err := v.in.Readlink(v.name)
	v.have = target
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if v.want != "" {
			v.action = "made"
		}
		return nil
	case errors.Is(err, unix.EINVAL) && v.want == "":
		return nil
	case errors.Is(err, unix.EINVAL):
		v.directory, v.action = true, "replaced"
		return nil
	case err != nil:
		return err
	case target == v.want:
		v.target = v.site.dir(v.link)
		return nil
	}
	if v.target = v.h.OwnLink(at); v.target != "" {
		v.action = "replaced"
		return nil
	}
	hint := ""
	switch owner := v.h.LinkOwner(v.link); owner {
	case "":
	case "NixOS":
		hint = " (made by NixOS: there, nothing needs to be installed)"
	default:
		hint = " (made by " + owner + ": hostDriver install --beside)"
	}
	return fmt.Errorf("%s is a link to %s%s; %w", at, target, hint, errForeign)
}

// replaceable says why the directory in the link's place is not to go: not all in it was made by hostDriver, or is
// links to the driver's libraries.
func (v *sight) replaceable() error {
	if !v.directory {
		return nil
	}
	at := path.Dir(v.link)
	dir, err := regular.RootBelow(v.in, v.name)
	if errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%s is not a directory; hostDriver did not make it and leaves it alone", at)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		target, err := dir.Readlink(name)
		switch {
		case name == "lib" && err == nil && isGeneration(target), err == nil && target == "lib/"+name &&
			slices.Contains(host.Beside, name):
		case name == "lib" && err == nil:
			return fmt.Errorf("%s is a link to %s, which hostDriver did not make; remove it first if nothing else needs it",
				v.link, target)
		case name == "lib":
			if links, err := offer.OnlyDriverLinks(dir, name); err != nil || !links {
				return fmt.Errorf("%s %w", v.link, errOthers)
			}
		case isLeftOver(e), isGeneration(name) && e.IsDir(), name == lockName:
		default:
			return fmt.Errorf("%s %w (%s)", at, errMore, name)
		}
	}
	return nil
}

var errMore = errors.New("must become a link, but holds files that hostDriver did not make: move them away first")

// aside is what the names begin with of what is to take the link's place, or had it.
func (v *sight) aside() string { return "." + v.name + generation }

var errForeign = errors.New("hostDriver leaves it alone")

// put lets the link lead to the site's directory, or does nothing where there is to be none.
func (v *sight) put() error {
	if v.action == "" {
		return nil
	}
	fresh := v.aside() + plainfile.Random()
	if err := v.in.Symlink(v.want, fresh); err != nil {
		return err
	}
	if v.directory {
		return plainfile.Exchange(v.in, fresh, v.name)
	}
	return v.in.Rename(fresh, v.name)
}

// remove removes the link, if it is there.
func (v *sight) remove() error {
	if v.target == "" {
		return nil
	}
	if now, err := v.in.Readlink(v.name); err != nil || now != v.have {
		return nil // others did meanwhile
	}
	err := v.in.Remove(v.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (v *sight) leftOver() (names []string) {
	if v.in == nil {
		return nil
	}
	entries, err := fs.ReadDir(v.in.FS(), ".")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), v.aside()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// unfinished reports whether an earlier run left anything, or another is at work.
func (v *sight) unfinished() bool { return len(v.leftOver()) > 0 }

func (v *sight) removeLeftOver() error {
	var failed []error
	for _, n := range v.leftOver() {
		failed = append(failed, v.in.RemoveAll(n))
	}
	return errors.Join(failed...)
}
