package install

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/store"
)

// A Program is what root's units, or Nix's hook, start: nobody but root can put another one in its place.
type Program struct {
	Path string
	// Kept is the store path that Path is in, and Root the link that keeps it from Nix's garbage collector; "" for none.
	Kept, Root string
	// From is the program of which there is to be a copy at Path; "" where Path is a program itself.
	From string

	copy []byte
}

const maxProgram = 256 << 20 // bytes

// ChooseProgram returns the program to name, for a purpose that is part of a name. That is the one that the caller
// names, as a path in the system; else the one that runs: itself where it is in a store that is root's, or in /usr,
// which only root and packages write; else a copy of it. Where there can be no copy, as /usr is read-only, it is itself
// again, if it is root's. The error says who could replace it.
func ChooseProgram(h *host.Host, named, purpose string) (*Program, error) {
	if named != "" {
		if !path.IsAbs(named) {
			return nil, fmt.Errorf("%s: an absolute path is needed", named)
		}
		if h.Root.IsHost() { // in a tree, it may come later
			if info, err := h.Root.Stat(named); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
				return nil, fmt.Errorf("%s: root could not start it: %w", named,
					cmp.Or(host.Reason(err), errors.New("it is not a program")))
			}
		}
		return judged(h, path.Clean(named), purpose)
	}
	const running = "/proc/self/exe"
	at, err := os.Readlink(running)
	if err != nil {
		return nil, err
	}
	if h.Root.Exists(at) { // it may have been replaced since it was started
		p, err := judged(h, at, purpose)
		if err == nil && (p.Root != "" || !store.Contains(at) && (strings.HasPrefix(at, "/usr/") ||
			readOnly(h, host.Libexec))) {
			return p, nil
		}
	}
	p, err := judged(h, host.Libexec, purpose)
	if err != nil {
		return nil, fmt.Errorf("%w; name a program that is root's with --program FILE", err)
	}
	f, err := os.Open(running)
	if err == nil {
		p.From = at
		p.copy, err = readAll(f)
	}
	return p, err
}

func readAll(f *os.File) ([]byte, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxProgram {
		return nil, errors.Join(err, fmt.Errorf("%s has more than %d bytes", f.Name(), maxProgram))
	}
	b := make([]byte, info.Size())
	_, err = f.ReadAt(b, 0)
	return b, err
}

// judged returns the program of a path, once nobody but root can exchange it.
func judged(h *host.Host, at, purpose string) (*Program, error) {
	if err := h.Trusted(at); err != nil {
		return nil, fmt.Errorf("%s: %w: root would run what others put there", at, err)
	}
	p := &Program{Path: at}
	real, err := h.Root.Resolve(at)
	if err != nil || !store.Contains(real) {
		return p, nil
	}
	// A profile's link leads elsewhere after an upgrade or a rollback, and what it led to may be collected: the very path
	// is named.
	kept := store.Path(real)
	roots := path.Join(path.Dir(path.Dir(kept)), "var/nix/gcroots")
	if !h.Root.Exists(roots) || h.Trusted(roots) != nil {
		return p, nil
	}
	return &Program{Path: real, Kept: kept, Root: path.Join(roots, "hostDriver-"+purpose)}, nil
}

// readOnly reports whether nothing can be made at a path because its file system is read-only.
func readOnly(h *host.Host, at string) bool {
	for !h.Root.Exists(at) {
		at = path.Dir(at)
	}
	at, err := h.Root.Resolve(at)
	return err == nil && errors.Is(unix.Access(h.Root.Path(at), unix.W_OK), unix.EROFS)
}

// Needs are what has to be there for the program to be: its copy, or its garbage collector root.
func (p *Program) Needs() []made.File {
	switch {
	case p.From != "":
		return []made.File{{Path: p.Path, From: p.From, Program: p.copy, Mode: 0o755}}
	case p.Root != "":
		return []made.File{{Path: p.Root, Link: p.Kept}}
	}
	return nil
}
