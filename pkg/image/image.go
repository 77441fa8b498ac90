// Package image thins the GPU code in a container image: an archive as nixpkgs' dockerTools makes it and `docker load`
// and `podman load` read it (Docker Image Specification v1.2, "Combined Image JSON + Filesystem Changeset Format").
//
//	sum, err := image.Thin("image.tar.gz", "thinned.tar.gz",
//		image.Options{Options: thin.Options{Targets: gpus}, Label: "9.0"})
//
// One form is read and written: manifest.json, and layers that are not compressed by themselves. What else lies in the
// archive for readers of OCI's form names the layers' old digests, and is left out.
//
// Each layer has to have the digest that the image's configuration names, or nothing is written: a damaged layer would
// come out with a digest that is right. A layer in which nothing changes keeps its bytes, and so its digest. Of another the files that change are written
// anew, every other entry as it was; digest, size and name of the layer follow, and with them the image's
// configuration. What is on the disk at a time beside the result: the archive unpacked, where it is compressed, and the
// layers that change.
//
// A store path in the image then has the name that Nix knows, and another content. So nothing is to be copied out of
// that store, which the label [Store] says, and an image that has a Nix database, by which somebody would, is refused
// ([ErrDatabase]); the label [ThinnedFor] says what was done.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/thin"

	"golang.org/x/sys/unix"
)

// Labels of an image: ThinnedFor says for which GPUs it has code, Store what that means for its Nix store.
const (
	ThinnedFor = "cuda-runpath.thinned-for"
	Store      = "cuda-runpath.store"
)

const storeSays = "its paths differ from what Nix has registered for them: copy nothing out of it"

// Errors of Thin that say what to do.
var (
	ErrDatabase = errors.New("the image has a Nix database, which knows the content of each of its store paths: " +
		"make it without (includeNixDB = false)")
	errNoManifest = errors.New(
		"it has no manifest.json: not an archive as `docker save` and dockerTools make it")
	errOCI    = errors.New("it is an OCI layout, which this program does not rewrite: " + convert + ociArchive)
	errZstd   = errors.New("it is compressed by zstd: " + convert + dockerArchive)
	errPacked = errors.New("it is compressed by itself: " + convert + dockerArchive)
)

// What is said after a form of image, which skopeo makes the one that is read here. Of an image with zstd's layers it does
// that only if a directory has them unpacked before.
const (
	ociArchive    = "oci-archive" + converted
	dockerArchive = "docker-archive" + converted

	converted = ":FILE dir:DIR` and then `skopeo copy dir:DIR docker-archive:NEW` make a NEW that is read here"
	convert   = "`skopeo copy --dest-decompress "
)

// Options say what is to be done.
type Options struct {
	thin.Options
	// Label is what the image's label says: the GPUs, as they were given.
	Label string
	// Length says what becomes of files' lengths.
	Length thin.Length
	// Told is told of each file with GPU code, by its path in the image and its length in bytes before, and of each that
	// cannot be read as the ELF file that it says it is, with the reason: it is left as it is.
	Told func(path string, size int64, work *thin.Work, err error)
}

// Sum is what became of an image.
type Sum struct {
	Layers  int   `json:"layers"`
	Changed int   `json:"changed"` // layers that are others now
	Before  int64 `json:"before"`  // bytes of all layers, not compressed
	After   int64 `json:"after"`
}

// manifest is an element of manifest.json.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// layer is one of the image.
type layer struct {
	was    entry
	now    *os.File // nil: as it was
	size   int64
	digest string // of what was there, its diff ID: "sha256:…"
	other  string // of what is there now, in hexadecimal digits; "" where it is as it was
}

// configuration is that of an image, as far as it is read here.
type configuration struct {
	at                    string // its entry's name
	text                  []byte
	whole, config, rootfs map[string]json.RawMessage
	ids                   []string // of the layers
	labels                map[string]string
}

// entry is a part of the archive.
type entry struct {
	tar.Header
	data io.ReaderAt
}

// Thin reads the image archive at from and writes the thinned one to what `to` leads to, as [plainfile.Write] does, at the
// end. Both are compressed by gzip, or neither is. Errors name the layer and the file in it.
func Thin(from, to string, o Options) (*Sum, error) {
	in, is, err := regular.Open(from)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := plainfile.OpenOutput(to, 0o666)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	w := &work{Options: o, out: out}
	defer w.close()
	if err := w.read(in, os.SameFile(is, out.Info())); err != nil {
		return nil, err
	}
	if err := w.layers(); err != nil {
		return nil, err
	}
	w.configure()
	if err := out.Write(w.write); err != nil {
		return nil, err
	}
	return &w.sum, nil
}

// work is an image at work.
type work struct {
	Options
	out     *plainfile.Output
	scratch []*regular.Nameless
	one     *os.File
	gzipped bool
	entries []entry        // of the archive, in its order
	number  map[string]int // of the first entry with a name, counted from 1
	images  []manifest
	layer   map[string]*layer // by name in the archive
	configs []*configuration  // of the images
	// configurations, and the list of images, by name in the archive, as they become; nil: as they were
	changed map[string][]byte
	renamed map[string]string // digests, of layers and configurations
	sum     Sum
}

func (w *work) close() {
	for _, f := range w.scratch {
		f.Close()
	}
}

// temporary returns a file for the time of the work, which never gets a name.
func (w *work) temporary() (*os.File, error) {
	dir, err := w.out.Scratch()
	if err != nil {
		return nil, err
	}
	f, err := regular.NewNameless(int(dir.Fd()), fmt.Sprintf("image-%d", len(w.scratch)))
	if err != nil {
		return nil, fmt.Errorf("making a temporary file in %s: %w", dir.Name(), err)
	}
	w.scratch = append(w.scratch, f)
	return f.File, nil
}

// read lists the entries of an archive, or of a copy of it where it is to be overwritten.
func (w *work) read(in *os.File, overwritten bool) error {
	magic := make([]byte, 4)
	if _, err := in.ReadAt(magic, 0); err != nil && err != io.EOF {
		return err
	}
	if isZstd(magic) {
		return errZstd
	}
	at := in
	if w.gzipped = isGzip(magic); w.gzipped || overwritten {
		var from io.Reader = in
		var err error
		if at, err = w.temporary(); err != nil {
			return err
		}
		if w.gzipped {
			if from, err = gzip.NewReader(in); err != nil {
				return err
			}
		}
		if _, err := io.Copy(leaving{at}, from); err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
	}
	st, err := at.Stat()
	if err != nil {
		return err
	}
	archive := io.NewSectionReader(at, 0, st.Size())
	w.number = map[string]int{}
	err = each(archive, func(h *tar.Header, data *io.SectionReader) error {
		if name := path.Clean(h.Name); w.number[name] == 0 {
			w.number[name] = len(w.entries) + 1
		}
		w.entries = append(w.entries, entry{*h, data})
		return nil
	})
	if err != nil {
		return err
	}
	m, ok := w.find("manifest.json")
	if _, oci := w.find("index.json"); !ok && oci {
		return errOCI
	} else if !ok {
		return errNoManifest
	}
	text, err := whole(m)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &w.images); err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	return nil
}

// leaving writes to a file as long as its file system then has room for others: 1 GB, or a tenth of it where that is
// less. How much unpacks from a file nobody says before, and 1,000 zeros are honestly one byte of gzip.
type leaving struct{ file *os.File }

func (w leaving) Write(b []byte) (int, error) {
	var is unix.Statfs_t
	if err := unix.Fstatfs(int(w.file.Fd()), &is); err == nil && is.Blocks > 0 { // else it has no size
		block := uint64(is.Bsize)
		if room := min(1e9, is.Blocks*block/10); is.Bavail*block < room+uint64(len(b)) {
			return 0, fmt.Errorf("less than %s would stay free: write the new image to another file system",
				gpucode.Megabytes(room))
		}
	}
	return w.file.Write(b)
}

func isGzip(magic []byte) bool { return bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) }         // RFC 1952
func isZstd(magic []byte) bool { return bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) } // RFC 8878

// each calls f for each entry of a tar archive, with its data, which is not in it in pieces.
func each(archive *io.SectionReader, f func(*tar.Header, *io.SectionReader) error) error {
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeGNUSparse || h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != "" {
			return fmt.Errorf("%s: a sparse file of GNU tar's format, which this program does not read", h.Name)
		}
		switch h.Typeflag {
		case tar.TypeLink, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeDir, tar.TypeFifo:
			h.Size = 0 // no data follows, whatever the entry says
		}
		at, err := archive.Seek(0, io.SeekCurrent) // the reader reads no further than it must
		if err != nil {
			return err
		}
		if err := f(h, io.NewSectionReader(archive, at, h.Size)); err != nil {
			return err
		}
		if _, err := archive.Seek(at, io.SeekStart); err != nil {
			return err
		}
	}
}

// find returns the entry of a name; a symbolic link, as skopeo makes for the older form's names, leads to another.
func (w *work) find(name string) (*entry, bool) {
	for range 8 {
		i := w.number[path.Clean(name)] - 1
		switch {
		case i < 0:
			return nil, false
		case w.entries[i].Typeflag != tar.TypeSymlink:
			return &w.entries[i], true
		}
		name = path.Join(path.Dir(name), w.entries[i].Linkname)
	}
	return nil, false
}

// limit is what a text of an archive may have, in bytes.
const limit = 64 << 20

// whole returns what a text of the archive holds.
func whole(e *entry) ([]byte, error) {
	if e.Size > limit {
		return nil, fmt.Errorf("%s: %d bytes, too many for an image's own text", e.Name, e.Size)
	}
	b := make([]byte, e.Size)
	if _, err := io.ReadFull(io.NewSectionReader(e.data, 0, e.Size), b); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	return b, nil
}

// layers checks and thins all of them.
func (w *work) layers() error {
	w.layer = map[string]*layer{}
	for _, m := range w.images {
		c, err := w.configuration(m)
		if err != nil {
			return err
		}
		w.configs = append(w.configs, c)
		for i, name := range m.Layers {
			e, ok := w.find(name)
			if !ok {
				return fmt.Errorf("manifest.json names the layer %s, which is not there", name)
			}
			l := w.layer[e.Name]
			if l == nil {
				l = &layer{was: *e, size: e.Size}
				if err := w.thin(l, c.ids[i]); err != nil {
					return fmt.Errorf("layer %s: %w", name, err)
				}
				w.layer[e.Name] = l
				w.sum.Layers++
				w.sum.Before += e.Size
				w.sum.After += l.size
			} else if l.digest != c.ids[i] {
				return fmt.Errorf("layer %s: %w", name, damaged(l.digest, c.ids[i]))
			}
			w.layer[name] = l
		}
	}
	return nil
}

// damaged says that a layer has not the digest that it must have.
func damaged(is, want string) error {
	return fmt.Errorf("it is damaged: its digest is %s, but the image's configuration says %q", is, want)
}

// configuration reads an image's.
func (w *work) configuration(m manifest) (*configuration, error) {
	e, ok := w.find(m.Config)
	if !ok {
		return nil, fmt.Errorf("manifest.json names the configuration %s, which is not there", m.Config)
	}
	text, err := whole(e)
	if err != nil {
		return nil, err
	}
	c := &configuration{at: e.Name, text: text}
	read := func(from json.RawMessage, to any) {
		if err == nil && from != nil && string(from) != "null" {
			err = json.Unmarshal(from, to)
		}
	}
	read(text, &c.whole)
	read(c.whole["rootfs"], &c.rootfs)
	read(c.whole["config"], &c.config)
	read(c.rootfs["diff_ids"], &c.ids)
	read(c.config["Labels"], &c.labels)
	if err == nil && len(c.ids) != len(m.Layers) {
		err = fmt.Errorf("it has digests of %d layers, and manifest.json names %d", len(c.ids), len(m.Layers))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Config, err)
	}
	return c, nil
}

// thin makes the new layer, where a file of it changes, of one whose diff ID is to be id.
func (w *work) thin(l *layer, id string) error {
	old := io.NewSectionReader(l.was.data, 0, l.was.Size)
	magic := make([]byte, 4)
	if _, err := old.ReadAt(magic, 0); err == nil && (isGzip(magic) || isZstd(magic)) {
		return errPacked
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, old); err != nil {
		return err
	}
	if l.digest = "sha256:" + hex.EncodeToString(sum.Sum(nil)); l.digest != id {
		return damaged(l.digest, id)
	}
	if _, err := old.Seek(0, io.SeekStart); err != nil {
		return err
	}
	plans := map[int]*thin.Work{}
	n := 0
	err := each(old, func(h *tar.Header, data *io.SectionReader) error {
		at := n
		n++
		if strings.HasSuffix(path.Clean("/"+h.Name), "/nix/var/nix/db/db.sqlite") {
			return ErrDatabase
		}
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		head := make([]byte, min(h.Size, elfimage.HeadSize))
		if _, err := data.ReadAt(head, 0); err != nil && err != io.EOF {
			return err
		}
		p, err := thin.Decide(data, h.Size, head, w.Options.Options, w.Length, func(string) string { return "" })
		switch {
		case errors.Is(err, thin.ErrSkipped):
		case elfimage.IsMalformed(err):
			w.tell(h, nil, err)
		case err != nil:
			return fmt.Errorf("%s: %w", h.Name, err)
		case p.Empty():
			w.tell(h, p, nil)
		default:
			plans[at] = p
		}
		return nil
	})
	if err != nil || len(plans) == 0 {
		return err
	}
	return w.rewrite(l, old, plans)
}

// tell tells of a file.
func (w *work) tell(h *tar.Header, p *thin.Work, err error) {
	if w.Told != nil {
		w.Told(path.Clean("/"+h.Name), h.Size, p, err)
	}
}

// rewrite writes a layer anew with the files that change, by their number.
func (w *work) rewrite(l *layer, old *io.SectionReader, plans map[int]*thin.Work) (err error) {
	if l.now, err = w.temporary(); err != nil {
		return err
	}
	if _, err := old.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := sha256.New()
	out := tar.NewWriter(io.MultiWriter(l.now, sum))
	n := 0
	err = each(old, func(h *tar.Header, data *io.SectionReader) error {
		p := plans[n]
		n++
		var from io.Reader = data
		if p != nil {
			file, err := w.thinned(p, data)
			if err != nil {
				return fmt.Errorf("%s: %w", h.Name, err)
			}
			w.tell(h, p, nil)
			h.Size, from = p.Size(), io.NewSectionReader(file, 0, p.Size())
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if _, err := io.Copy(out, from); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		return nil
	})
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if l.size, err = l.now.Seek(0, io.SeekCurrent); err != nil {
		return err
	}
	l.other = hex.EncodeToString(sum.Sum(nil))
	w.sum.Changed++
	return nil
}

// thinned writes a file as it becomes.
func (w *work) thinned(p *thin.Work, data *io.SectionReader) (*os.File, error) {
	var err error
	if w.one == nil {
		w.one, err = w.temporary()
	}
	f := w.one
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil && !p.Anew() {
		_, err = io.Copy(io.NewOffsetWriter(f, 0), io.NewSectionReader(data, 0, data.Size()))
	}
	if err == nil {
		err = p.Write(copied{f})
	}
	if err == nil {
		err = f.Truncate(p.Size()) // zeros at the end were not written
	}
	return f, err
}

// copied is a file that becomes one of a layer, where there are no holes.
type copied struct{ *os.File }

// Zero writes zeros.
func (c copied) Zero(off, n int64) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		m, err := c.WriteAt(zeros[:min(n, int64(len(zeros)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(m), n-int64(m)
	}
	return nil
}

// configure gives the images their new configurations and the archive its new names.
func (w *work) configure() {
	w.changed = map[string][]byte{}
	w.renamed = map[string]string{}
	for i, c := range w.configs {
		changed := false
		for j, name := range w.images[i].Layers {
			if now := w.layer[name].other; now != "" {
				w.renamed[strings.TrimPrefix(c.ids[j], "sha256:")] = now
				c.ids[j], changed = "sha256:"+now, true
			}
		}
		if w.changed[c.at] = nil; changed {
			now := c.labelled(w.Label)
			w.changed[c.at] = now
			w.renamed[sha256Hex(c.text)] = sha256Hex(now)
		}
	}
	for i := range w.images {
		m := &w.images[i]
		m.Config = w.name(m.Config)
		for j, name := range m.Layers {
			m.Layers[j] = w.name(name)
		}
	}
	list, _ := w.find("manifest.json")               // which was read
	w.changed[list.Name], _ = json.Marshal(w.images) // strings
}

// labelled returns a configuration with the digests that its layers have now, and with the labels.
func (c *configuration) labelled(label string) []byte {
	if c.labels == nil {
		c.labels = map[string]string{}
	}
	if c.config == nil {
		c.config = map[string]json.RawMessage{}
	}
	c.labels[ThinnedFor], c.labels[Store] = label, storeSays
	put := func(in map[string]json.RawMessage, name string, value any) {
		in[name], _ = json.Marshal(value) // maps and strings
	}
	put(c.rootfs, "diff_ids", c.ids)
	put(c.config, "Labels", c.labels)
	put(c.whole, "rootfs", c.rootfs)
	put(c.whole, "config", c.config)
	text, _ := json.MarshalIndent(c.whole, "", "  ")
	return text
}

// write writes the new archive, in the order of the old one.
func (w *work) write(to io.Writer) error {
	if !w.gzipped {
		return w.archive(to)
	}
	packed := gzip.NewWriter(to)
	return errors.Join(w.archive(packed), packed.Close())
}

func (w *work) archive(to io.Writer) error {
	out := tar.NewWriter(to)
	for i := range w.entries {
		e := &w.entries[i]
		if w.ofOCI(e) {
			continue
		}
		h, data := e.Header, io.NewSectionReader(e.data, 0, e.Size)
		h.Name, h.Linkname = w.name(h.Name), w.name(h.Linkname)
		if text := w.changed[e.Name]; text != nil {
			h.Size, data = int64(len(text)), io.NewSectionReader(bytes.NewReader(text), 0, int64(len(text)))
		}
		if l, ok := w.layer[e.Name]; ok && l.now != nil {
			h.Size, data = l.size, io.NewSectionReader(l.now, 0, l.size)
		}
		if err := out.WriteHeader(&h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if _, err := io.Copy(out, data); err != nil {
			return err
		}
	}
	return out.Close()
}

// ofOCI reports whether an entry is there for readers of OCI's form alone: the index, and blobs that manifest.json does
// not name.
func (w *work) ofOCI(e *entry) bool {
	name := path.Clean(e.Name)
	blob := strings.HasPrefix(name, "blobs/") && e.Typeflag == tar.TypeReg
	_, configures := w.changed[e.Name]
	return w.layer[e.Name] == nil && !configures && (name == "index.json" || name == "oci-layout" || blob)
}

// name returns a name with the new digests in it.
func (w *work) name(name string) string {
	b := []byte(name)
	for i := 0; i+sha256Digits <= len(b); i++ {
		if now := w.renamed[name[i:i+sha256Digits]]; now != "" {
			i += copy(b[i:], now) - 1
		}
	}
	return string(b)
}

const sha256Digits = 2 * sha256.Size

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
