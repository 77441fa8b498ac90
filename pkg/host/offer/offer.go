// Package offer plans and makes directories of driver libraries: links for the system, or
// a set that works by itself, in which libraries that load others are copies with run paths.
package offer

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/sysroot"
)

// Fresh is what the name of an offer's directory begins with until it is put into its place.
const Fresh = ".new-"

// An Offer is the contents of a directory of driver libraries, before it is made.
type Offer struct {
	Entries []Entry `json:"entries"`
	// Notes are what else there is to say, a sentence each.
	Notes []string `json:"notes"`

	// Root is the system whose driver it is.
	Root sysroot.Root `json:"-"`
	// Seen is where programs will see the directory; "" for where it is made.
	Seen string `json:"-"`
}

// Entry is one name in the directory.
type Entry struct {
	Name string `json:"name"` // relative to the directory
	// Target is what the link points to; "" for a copy.
	Target string `json:"target,omitempty"`
	// Copy is the file that is copied, RunPath the run path that the copy gets.
	Copy    string `json:"copy,omitempty"`
	RunPath string `json:"run_path,omitempty"`
	// Vendor is the file that is written; nil for a link or a copy.
	Vendor *host.Vendor `json:"vendor,omitempty"`
}

// IsBeside reports whether a name in an offer is in one of [host.Beside].
func IsBeside(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains(host.Beside, top)
}

// Has reports whether anything of an offer is in a directory.
func (o *Offer) Has(dir string) bool {
	return slices.ContainsFunc(o.Entries, func(e Entry) bool { return strings.HasPrefix(e.Name, dir+"/") })
}

// vendors adds the files by which loaders find the driver's libraries, and the directories in which libvdpau and libgbm
// look, as NixOS has them in /run/opengl-driver. optix is where OptiX's data is seen, "" where there is none.
func (o *Offer) vendors(d *host.Driver, optix string) {
	for _, v := range d.Vendors {
		o.Entries = append(o.Entries, Entry{Name: v.Name(), Vendor: v})
	}
	if optix != "" {
		o.Entries = append(o.Entries, Entry{Name: strings.TrimPrefix(host.OptixData, "/usr/"), Target: optix})
	}
	copies := map[string]Entry{}
	for _, e := range o.Entries {
		copies[e.Name] = e
	}
	for _, e := range slices.Clone(o.Entries) {
		switch e.Name {
		case "libnvidia-allocator.so.1":
			o.Entries = append(o.Entries, Entry{Name: "gbm/nvidia-drm_gbm.so", Target: "../" + e.Name})
		case "libvdpau_nvidia.so.1":
			if to, ok := copies[e.Target]; ok {
				e.Copy, e.RunPath = to.Copy, to.RunPath
			}
			// Its $ORIGIN is the directory by whose name it is opened.
			v := Entry{Name: "vdpau/" + e.Name, Copy: e.Copy, RunPath: strings.ReplaceAll(e.RunPath, "$ORIGIN", "$ORIGIN/..")}
			if e.Copy == "" {
				v.Target = "../" + e.Name
			}
			o.Entries = append(o.Entries, v)
		}
	}
	sort.Slice(o.Entries, func(i, j int) bool { return o.Entries[i].Name < o.Entries[j].Name })
}

// Links plans a directory of links to exactly the driver's libraries.
func Links(d *host.Driver) *Offer {
	o := &Offer{Notes: []string{}}
	taken := map[string]bool{}
	for _, lib := range d.Libraries {
		for _, name := range lib.Links {
			if taken[name] {
				continue
			}
			taken[name] = true
			target := lib.Path
			if host.VersionIn(name) != "" {
				target = lib.File // a name with a version stands for that version alone
			}
			o.Entries = append(o.Entries, Entry{Name: name, Target: target})
		}
	}
	o.vendors(d, d.Optix)
	return o
}

// Private plans a directory that works for programs whose loader knows nothing of
// the host: libraries that load others, by DT_NEEDED or by dlopen, are copies that
// search the directory itself ($ORIGIN); the rest are links.
func Private(h *host.Host, d *host.Driver) *Offer { return selfContained(h, d, false) }

// Copies plans such a directory in which every library is a copy, the driver's by the names that have its version:
// nobody who upgrades the driver leaves it half old and half gone, and it is the same seen from everywhere.
func Copies(h *host.Host, d *host.Driver) *Offer { return selfContained(h, d, true) }

func selfContained(h *host.Host, d *host.Driver, all bool) *Offer {
	o := &Offer{Notes: []string{}, Root: h.Root}
	own := d.Names()
	needed := map[string]host.Need{}
	for _, n := range d.Needs {
		if n.Path != "" {
			needed[n.Soname] = n
		} else {
			need := "needs"
			if len(n.By) > 1 {
				need = "need"
			}
			o.Notes = append(o.Notes, fmt.Sprintf("%s, which %s %s, is not on this host", n.Soname,
				strings.Join(n.By, " and "), need))
		}
	}
	taken := map[string]bool{}
	add := func(e Entry) {
		if !taken[e.Name] {
			taken[e.Name] = true
			o.Entries = append(o.Entries, e)
		}
	}
	for _, lib := range d.Libraries {
		inside, outside := loads(h, lib, own, needed)
		e := Entry{Name: lib.Soname, Target: h.Root.Path(lib.File)}
		// This directory may be mounted on the compat package's, where a link would lead to itself.
		if all || inside || outside || lib.Source == host.CompatSource {
			h.Saw(lib.File)
			e = Entry{Name: lib.Soname, Copy: h.Root.Path(lib.File), RunPath: "$ORIGIN"}
			if outside {
				e.RunPath += ":$ORIGIN/" + host.HostDir
			}
		}
		if named := path.Base(lib.File); all && host.VersionIn(named) != "" && slices.Contains(lib.Links, named) &&
			!taken[named] {
			if e.Name = named; named != lib.Soname {
				add(Entry{Name: lib.Soname, Target: named})
			}
		}
		add(e)
		for _, name := range lib.Links {
			if name != e.Name {
				add(Entry{Name: name, Target: e.Name})
			}
		}
	}
	for _, n := range d.Needs {
		at, err := h.Root.Outside(n.Path)
		if n.Path == "" || err != nil {
			continue
		}
		e := Entry{Name: host.HostDir + "/" + n.Soname, Target: at}
		if all || len(n.Needs) > 0 {
			h.Saw(n.Path)
			e = Entry{Name: e.Name, Copy: e.Target, RunPath: "$ORIGIN"}
			if n.Soname == host.GLVNDEGL {
				e.RunPath += ":$ORIGIN/.."
			}
		}
		add(e)
	}
	optix := d.Optix // as programs of the driver's own system see it
	if !all && optix != "" {
		optix, _ = h.Root.Outside(optix)
	}
	o.vendors(d, optix)
	return o
}

// Reach lets the copies find the others by the directory's name as well, for programs that open them through links
// elsewhere.
func (o *Offer) Reach(dir string) {
	for i, e := range o.Entries {
		if e.RunPath != "" {
			o.Entries[i].RunPath += ":" + dir
		}
	}
}

// loads reports whether a library loads others of the driver's, and others of the
// host's, by DT_NEEDED or by a name in its constants.
func loads(h *host.Host, lib host.Library, own map[string]bool, needed map[string]host.Need) (inside, outside bool) {
	for _, s := range slices.Concat(lib.Needs, lib.Opens) {
		_, isHost := needed[s]
		inside, outside = inside || own[s], outside || isHost
	}
	if inside {
		return inside, outside
	}
	im, f, err := host.OpenImage(h.Root, lib.File)
	if err != nil {
		return inside, outside
	}
	defer f.Close()
	// An error here means a damaged file; what was read until then counts.
	_ = im.LibraryStrings(func(name string, exact bool) bool {
		if own[name] && !slices.Contains(lib.Links, name) {
			inside = true
		}
		return !inside
	})
	return inside, outside
}

// Digest names the offer by its contents: the same names, targets, bytes and run paths give the same key.
// It tells offers apart and guards nothing (who can write there is judged by the owners), so it needs
// no cryptographic hash, which would be a fortieth of the programs.
func (o *Offer) Digest() (string, error) {
	return o.key(func(e Entry) ([]byte, error) {
		f, err := o.open(e)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		content := fnv.New128a()
		if _, err = io.Copy(content, f); err != nil {
			return nil, fmt.Errorf("reading %s: %w", e.Copy, err)
		}
		return content.Sum(nil), nil
	})
}

// open opens the file that an entry is a copy of.
func (o *Offer) open(e Entry) (*os.File, error) {
	return o.Root.Open("/" + strings.TrimPrefix(e.Copy, o.Root.Path("/")))
}

func (o *Offer) key(content func(Entry) ([]byte, error)) (string, error) {
	sum := fnv.New128a()
	for _, e := range o.Entries {
		fmt.Fprintf(sum, "%q %q %q ", e.Name, e.Target, e.RunPath)
		if e.Vendor != nil {
			fmt.Fprintf(sum, "%q", e.Vendor.Text(o.Seen))
		}
		if e.Copy != "" {
			c, err := content(e)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%x", c)
		}
		fmt.Fprintln(sum)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// ErrChanging means that the driver's files changed while they were copied, as an
// upgrade changes them: look for the driver again.
var ErrChanging = errors.New("the driver was changed while it was copied")

// Make writes the offer into a new directory in an open one, where it will be called key, and syncs it. What is
// copied must be what key was made of, else the error is ErrChanging.
func (o *Offer) Make(in *os.Root, name, key string) error {
	if err := plainfile.MakeIn(in, name); err != nil {
		return err
	}
	dir, err := regular.RootBelow(in, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, e := range o.Entries {
		if err := plainfile.MakeAllIn(dir, path.Dir(e.Name)); err != nil {
			return err
		}
	}
	made, err := o.key(func(e Entry) ([]byte, error) {
		from, err := o.open(e)
		if err != nil {
			return nil, err
		}
		defer from.Close()
		return copyWithRunPath(from, dir, e)
	})
	if err != nil {
		return err
	}
	for _, e := range o.Entries {
		var err error
		switch {
		case e.Vendor != nil:
			err = writeIn(dir, e.Name, o.text(in, key, e))
		case e.Copy == "":
			err = dir.Symlink(e.Target, e.Name)
		}
		if err != nil {
			return err
		}
	}
	if made != key {
		return ErrChanging
	}
	return fs.WalkDir(dir.FS(), ".", func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		f, err := dir.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// text returns the contents of a vendor's file in an offer that is a directory of the name key in an open one.
func (o *Offer) text(in *os.Root, key string, e Entry) []byte {
	return e.Vendor.Text(cmp.Or(o.Seen, filepath.Join(in.Name(), key)))
}

// writeIn writes a file that others may read.
func writeIn(dir *os.Root, name string, b []byte) error {
	sub, err := regular.RootBelow(dir, path.Dir(name))
	if err != nil {
		return err
	}
	defer sub.Close()
	return plainfile.WriteFile(sub, path.Base(name), 0o444, b)
}

// copyWithRunPath copies a library, gives the copy a run path of its own and syncs
// it. It returns the hash of what was copied.
func copyWithRunPath(in io.Reader, dir *os.Root, e Entry) ([]byte, error) {
	out, err := dir.OpenFile(e.Name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	content := fnv.New128a()
	size, err := io.Copy(out, io.TeeReader(in, content))
	if err != nil {
		return nil, fmt.Errorf("copying %s: %w", e.Copy, err)
	}
	im, err := elfimage.Parse(out, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Copy, err)
	}
	edit, err := elfedit.Plan(im, elfedit.Change{RunPath: &elfedit.RunPath{Tag: elf.DT_RUNPATH, List: e.RunPath}})
	if err == nil && edit != nil {
		err = edit.Apply(out)
	}
	if err != nil {
		return nil, fmt.Errorf("setting the run path of a copy of %s: %w", e.Copy, err)
	}
	if err := out.Chmod(0o555); err != nil {
		return nil, err
	}
	if err := out.Sync(); err != nil {
		return nil, fmt.Errorf("writing %s: %w", out.Name(), err)
	}
	return content.Sum(nil), out.Close()
}

// Same reports whether a directory in an open one holds exactly the offer's links and
// copies and nothing else. Of a copy it looks at the run path and that it is not cut off;
// its bytes are taken to be what the directory's key says they are.
func (o *Offer) Same(in *os.Root, name string) bool {
	dir, err := regular.RootBelow(in, name)
	if err != nil {
		return false
	}
	defer dir.Close()
	want := map[string]Entry{}
	for _, e := range o.Entries {
		want[e.Name] = e
		for sub := path.Dir(e.Name); sub != "."; sub = path.Dir(sub) {
			want[sub] = Entry{Name: sub}
		}
	}
	n := 0
	err = fs.WalkDir(dir.FS(), ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || at == "." {
			return err
		}
		e, ok := want[at]
		n++
		switch {
		case !ok:
			return errDiffers
		case e.Target != "":
			if target, err := dir.Readlink(at); err != nil || target != e.Target {
				return errDiffers
			}
		case e.Vendor != nil:
			if !entry.Type().IsRegular() {
				return errDiffers
			}
			if b, err := dir.ReadFile(at); err != nil || !bytes.Equal(b, o.text(in, name, e)) {
				return errDiffers
			}
		case e.Copy != "" && !(entry.Type().IsRegular() && goodCopy(dir, e)), e.Copy == "" && !entry.IsDir():
			return errDiffers
		}
		return nil
	})
	return err == nil && n == len(want)
}

// goodCopy reports whether a copy can be read, which it cannot where a segment is cut off, and has its run path.
func goodCopy(dir *os.Root, e Entry) bool {
	f, err := dir.OpenFile(e.Name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	im, err := host.ImageOf(f)
	if err != nil {
		return false
	}
	defer f.Close()
	_, have, err := im.RunPath()
	return err == nil && have == e.RunPath
}

var errDiffers = errors.New("differs")

// OnlyDriverLinks reports whether a directory in an open one holds nothing but links under
// the names of the driver's libraries, as tmpfiles.d lines and hands make it, and below the directories that
// hostDriver makes beside these nothing but links. The error is unix.ENOTDIR where the name is no directory's, a link's
// neither.
func OnlyDriverLinks(in *os.Root, name string) (bool, error) {
	at, err := in.Open(".")
	if err != nil {
		return false, err
	}
	defer at.Close()
	// One call, that follows no link: between two, the name may be given to something else.
	fd, err := regular.Descriptor(int(at.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return false, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	for _, n := range names {
		_, err := unix.Readlinkat(fd, n, make([]byte, 1))
		switch {
		case err == nil && driver.Provides(n):
		case errors.Is(err, unix.EINVAL) && host.IsOwnName(n) && onlyLinks(in, path.Join(name, n)):
		default:
			return false, nil
		}
	}
	return true, nil
}

// onlyLinks reports whether all that is in a directory, and below, are links.
func onlyLinks(in *os.Root, name string) bool {
	dir, err := regular.RootBelow(in, name)
	if err != nil {
		return false
	}
	defer dir.Close()
	return fs.WalkDir(dir.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Type()&fs.ModeSymlink == 0 {
			err = errDiffers
		}
		return err
	}) == nil
}
