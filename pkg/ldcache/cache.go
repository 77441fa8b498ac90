package ldcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Path is where the loader looks for its cache.
const Path = "/etc/ld.so.cache"

const (
	magicOld = "ld.so-1.7.0"
	magicNew = "glibc-ld.so.cache1.1"

	headerOld = 16 // magic, padding, nlibs
	entryOld  = 12 // flags, key, value
	headerNew = 48 // magic and version, nlibs, len_strings, flags, extension_offset, unused
	entryNew  = 24 // flags, key, value, osversion, hwcap

	extensionMagic  = 0xeaa42174 // -358342284
	extensionHWCaps = 1          // cache_extension_tag_glibc_hwcaps
	hwcapExtension  = 1 << 62    // DL_CACHE_HWCAP_EXTENSION
	isaLevelMask    = 1<<10 - 1  // DL_CACHE_HWCAP_ISA_LEVEL_MASK, in the upper half
	endianMask      = 3
	endianLittle    = 2
	endianBig       = 3
	maxString       = 4096     // PATH_MAX: no name that the loader could open is longer
	maxCache        = 16 << 20 // bytes; a desktop's has some hundred thousand
)

// errNotCache means that the file does not begin as a loader cache does.
var errNotCache = errors.New("not a loader cache (ld.so.cache)")

// FormatError says that a cache contradicts itself, and where.
type FormatError struct {
	Off int64 // file offset of what is wrong
	Msg string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s (offset %#x)", e.Msg, e.Off)
}

func malformed(off int64, format string, args ...any) error {
	return &FormatError{off, fmt.Sprintf(format, args...)}
}

// Cache is the loader's cache of a system.
type Cache struct {
	// Entries are in file order, which is the loader's: by soname downwards, then by flags downwards.
	Entries []Entry
	// Damage is the first thing that is wrong with an entry or with the extensions;
	// nil where the cache is whole. The loader uses what is not damaged.
	Damage error

	old     bool // the layout of libc5 and glibc 2.0 and 2.1, without the new one
	order   binary.ByteOrder
	text    string         // the file, of which all strings are parts
	damaged map[int]damage // entries whose strings are outside the file
}

// damage says which strings of an entry are outside the file.
type damage struct{ soname, path bool }

// Entry is one library in the cache.
type Entry struct {
	Soname string
	Path   string // absolute
	Flags  uint32 // kind and ABI of the library: FLAG_* in glibc's ldconfig.h
	// HWCap is 0 for an ordinary library. With bit 62 set it names a glibc-hwcaps
	// directory (see HWCapName); any other value is a hardware mask of before
	// glibc 2.37, which skips such entries.
	HWCap uint64
	// HWCapName is the glibc-hwcaps subdirectory that the library is in, such as "x86-64-v3", or "".
	HWCapName string
}

// named reports whether the entry is for a glibc-hwcaps directory (dl_cache_hwcap_extension).
func (e Entry) named() bool { return e.HWCap>>32&^isaLevelMask == hwcapExtension>>32 }

// Parse reads a cache of size bytes. It returns ErrNotCache for another kind of
// file, and *FormatError for one that the loader does not use at all. A cache of
// which a part can be used is returned with [Cache.Damage] set.
func Parse(r io.ReaderAt, size int64) (*Cache, error) {
	if size < headerOld {
		return nil, errNotCache
	}
	if size > maxCache {
		return nil, malformed(0, "a cache of %d bytes", size)
	}
	// First the magic: a large file of another kind need not be read whole.
	head := make([]byte, len(magicNew))
	if n, err := r.ReadAt(head[:min(int64(len(head)), size)], 0); err != nil && err != io.EOF {
		return nil, err
	} else {
		head = head[:n]
	}
	isNew := string(head) == magicNew
	if !isNew && !bytes.HasPrefix(head, []byte(magicOld)) {
		return nil, errNotCache
	}
	b := make([]byte, size)
	if n, err := r.ReadAt(b, 0); err != nil && (err != io.EOF || int64(n) < size) {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	c := &Cache{text: string(b)}
	var err error
	if isNew {
		err = c.parseNew(b, 0)
	} else {
		err = c.parseOld(b)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// parseOld reads the old layout, and only the new one where that is embedded, as the loader does.
func (c *Cache) parseOld(b []byte) error {
	fits := func(order binary.ByteOrder) bool {
		return uint64(order.Uint32(b[12:])) <= uint64(len(b)-headerOld)/entryOld
	}
	// The old layout does not say which byte order it has: take the one in which the table fits.
	switch {
	case fits(binary.LittleEndian):
		c.order = binary.LittleEndian
	case fits(binary.BigEndian):
		c.order = binary.BigEndian
	default:
		return malformed(12, "%d entries do not fit into %d bytes", binary.LittleEndian.Uint32(b[12:]), len(b))
	}
	n := int(c.order.Uint32(b[12:]))
	end := headerOld + n*entryOld
	// ALIGN_CACHE: the new header is aligned as 64-bit integers are on the machine, to 8 or (i386, m68k) to 4.
	for _, align := range []int{8, 4} {
		at := (end + align - 1) &^ (align - 1)
		if at+headerNew <= len(b) && string(b[at:at+len(magicNew)]) == magicNew {
			return c.parseNew(b, at)
		}
	}
	c.old = true
	c.Entries = make([]Entry, 0, n)
	for i := range n {
		c.entry(b, headerOld+i*entryOld, end)
	}
	return nil
}

// parseNew reads the new layout, whose header is at start; its strings are counted from there.
func (c *Cache) parseNew(b []byte, start int) error {
	if start+headerNew > len(b) {
		return malformed(int64(start), "the header is cut off")
	}
	h := b[start:]
	room := uint64(len(h)-headerNew) / entryNew
	switch h[28] & endianMask {
	case endianLittle:
		c.order = binary.LittleEndian
	case endianBig:
		c.order = binary.BigEndian
	case 1:
		return malformed(int64(start+28), "the cache is marked invalid")
	default: // written before glibc 2.33
		if c.order == nil {
			c.order = binary.LittleEndian
			if uint64(c.order.Uint32(h[20:])) > room {
				c.order = binary.BigEndian
			}
		}
	}
	n := uint64(c.order.Uint32(h[20:]))
	if n > room {
		return malformed(int64(start+20), "%d entries do not fit into %d bytes", n, len(h))
	}
	names, err := c.extensions(b, int64(c.order.Uint32(h[32:])))
	if err != nil {
		names = nil
		c.Damage = err
	}
	c.Entries = make([]Entry, 0, n)
	for i := range int(n) {
		at := start + headerNew + i*entryNew
		e := c.entry(b, at, start)
		e.HWCap = c.order.Uint64(b[at+16:])
		if index := e.HWCap & (1<<32 - 1); e.named() && index < uint64(len(names)) {
			e.HWCapName = names[index]
		}
	}
	return nil
}

// entry appends what both layouts begin an entry with.
func (c *Cache) entry(b []byte, at, strings int) *Entry {
	var d damage
	read := func(at int, bad *bool) string {
		text, err := c.str(uint64(strings)+uint64(c.order.Uint32(b[at:])), at)
		if err != nil {
			*bad = true
			if c.Damage == nil {
				c.Damage = err
			}
		}
		return text
	}
	c.Entries = append(c.Entries, Entry{Flags: c.order.Uint32(b[at:]), Soname: read(at+4, &d.soname),
		Path: read(at+8, &d.path)})
	if d != (damage{}) {
		if c.damaged == nil {
			c.damaged = map[int]damage{}
		}
		c.damaged[len(c.Entries)-1] = d
	}
	return &c.Entries[len(c.Entries)-1]
}

// str returns the string at off, which the word at from points to. What the loader
// would read of one that is longer than any path, or has no end, is cut off.
func (c *Cache) str(off uint64, from int) (string, error) {
	if off >= uint64(len(c.text)) {
		return "", malformed(int64(from), "a string at %#x, outside the file", off)
	}
	s, _, _ := strings.Cut(c.text[off:min(off+maxString, uint64(len(c.text)))], "\x00")
	return s, nil
}

// extensions reads from the extension directory at offset at the
// names of the glibc-hwcaps directories by index. glibc counts the offsets of these
// names from the start of the file, but ldconfig writes them counted from the new
// header, so in the compat layout the loader finds none of them: neither do we.
func (c *Cache) extensions(b []byte, at int64) (names []string, err error) {
	if at == 0 {
		return nil, nil
	}
	size := int64(len(b))
	if at%4 != 0 || at+8 > size {
		return nil, malformed(at, "no room for the extension directory")
	}
	if c.order.Uint32(b[at:]) != extensionMagic {
		return nil, malformed(at, "the extension directory has the wrong magic number")
	}
	n := int64(c.order.Uint32(b[at+4:]))
	if n > (size-at-8)/16 {
		return nil, malformed(at+4, "%d extensions do not fit", n)
	}
	var hwcaps, hwcapsEnd int64 // of the last such extension, which is the loader's
	for i := range n {
		s := at + 8 + i*16
		tag, off, length := c.order.Uint32(b[s:]), int64(c.order.Uint32(b[s+8:])), int64(c.order.Uint32(b[s+12:]))
		if off+length > size {
			return nil, malformed(s+8, "an extension ends at %#x, outside the file", off+length)
		}
		if tag != extensionHWCaps { // such as the generator's name
			continue
		}
		if hwcaps, hwcapsEnd = off, off+length; length%4 != 0 || off%4 != 0 {
			hwcapsEnd = hwcaps
		}
	}
	for p := hwcaps; p < hwcapsEnd; p += 4 {
		name, err := c.str(uint64(c.order.Uint32(b[p:])), int(p))
		if err != nil {
			name = "" // the loader gives such a directory no priority, and uses none of its libraries
		}
		names = append(names, name)
	}
	return names, nil
}
