// Package normal applies the rules of package runpath to files: it knows a file's machine and what it
// needs, looks into the directories that its entries stand for, and so answers what
// [runpath.Settings] asks.
package normal

import (
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/runpath"
)

// Settings are what the maps depend on beside the file.
type Settings struct {
	DriverLink string // "": the one that is right for the file's machine
	Compat     string // the compat directory that was named
	// CompatForStubs: see [runpath.Settings].
	CompatForStubs bool
	DriverLast     bool // the driver link goes last
	KeepEmpty      bool
	Dedupe         bool
	StubDirs       driver.StubDirs
}

// Maps apply settings to files. They remember what directories hold, and serve
// several goroutines.
type Maps struct {
	Settings
	directories
}

// New returns the maps with some settings.
func New(s Settings) *Maps {
	return &Maps{Settings: s, directories: directories{files: files.New(files.Options{})}}
}

// File is what the maps need to know of a file.
type File struct {
	Path   string // which $ORIGIN depends on
	ABI    files.ABI
	Needed []string // DT_NEEDED; only [runpath.ReplaceStubs] asks for it
}

// FileOf returns what the maps need to know of an image at a path, without Needed.
func FileOf(path string, im *elfimage.Image) File { return File{Path: path, ABI: files.ABIOf(im)} }

// Apply returns the run path that the maps make of a file's, and what there is to say about it.
func (m *Maps) Apply(f File, before runpath.List, maps runpath.Map) (runpath.List, runpath.Notes) {
	s := runpath.Settings{
		DriverLink:      m.DriverLink,
		Compat:          m.Compat,
		CompatForStubs:  m.CompatForStubs,
		DriverLast:      m.DriverLast,
		KeepEmpty:       m.KeepEmpty,
		Dedupe:          m.Dedupe,
		IsStub:          m.StubDirs.Contains,
		IsDriverLibrary: driver.Provides,
	}
	if s.DriverLink == "" {
		s.DriverLink = driver.LinkFor(f.ABI.Machine)
	}
	entries := m.Entries(f)
	s.IsCompat = entries.IsCompat
	if maps&runpath.ReplaceStubs != 0 {
		s.Needed, s.Holds = f.Needed, entries.Hold
		s.Offers = func(entry, name string) bool { return m.offers(entries.Directories(entry), name) }
	}
	return s.Apply(before, maps)
}
