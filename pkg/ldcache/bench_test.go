package ldcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// A cache of the size of a desktop's: 4,000 libraries, some of them for two kinds of program.
func desktop() []byte {
	f := cacheFile{order: binary.LittleEndian, format: New}
	for i := range 4000 {
		abi, dir := x86_64, "/usr/lib/x86_64-linux-gnu"
		if i%8 == 7 {
			abi, dir = i386, "/usr/lib/i386-linux-gnu"
		}
		soname := fmt.Sprintf("libsomething-%d.so.%d", i/8*8, i%8/4)
		f.entries = append(f.entries, Entry{Flags: abi.defaultFlags(), Soname: soname, Path: dir + "/" + soname})
	}
	return f.bytes()
}

func BenchmarkParse(b *testing.B) {
	file := desktop()
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := Parse(bytes.NewReader(file), int64(len(file)))
		if err != nil || len(c.Entries) != 4000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	file := desktop()
	c, err := Parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Resolve("libsomething-1600.so.1", x86_64, Processor{}); !ok {
			b.Fatal("not found")
		}
		if _, ok := c.Resolve("libnone.so.1", x86_64, Processor{}); ok {
			b.Fatal("found")
		}
	}
}
