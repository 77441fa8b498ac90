package runpath

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The property tests are cheap, and some rules only meet in rare lists:
// 5,000 cases each unless -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "5000")
	flag.Set("rapid.nofailfile", "true")
	flag.Parse()
	os.Exit(m.Run())
}

func TestParseAndString(t *testing.T) {
	for _, c := range []struct {
		in   string
		want List
	}{
		{"", nil},
		{"/a", List{"/a"}},
		{"/a:$ORIGIN/../b", List{"/a", "$ORIGIN/../b"}},
		{"/a:", List{"/a", ""}},
		{":/a", List{"", "/a"}},
		{"/a::/b", List{"/a", "", "/b"}},
		{":", List{"", ""}},
	} {
		got := Parse(c.in)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Parse(%q): %s", c.in, diff)
		}
		if got.String() != c.in {
			t.Errorf("Parse(%q).String() = %q", c.in, got)
		}
	}
	if got := (List{""}).String(); got != ":" {
		t.Errorf("one empty entry is written as %q", got)
	}
	if got := Parse("/a:/b:$ORIGIN:/a//::").Duplicates(); !slices.Equal(got, []string{"/a//"}) {
		t.Errorf("duplicates: %q", got)
	}
}

func TestKeyMakesSpellingsOfOneDirectoryEqual(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"/":                           "/",
		"//":                          "/",
		".":                           ".",
		"./":                          ".",
		"./lib":                       "lib",
		"/run/opengl-driver/lib":      "/run/opengl-driver/lib",
		"/run//opengl-driver/./lib//": "/run/opengl-driver/lib",
		"/run/opengl-driver/lib/.":    "/run/opengl-driver/lib",
		"${ORIGIN}/../${LIB}":         "$ORIGIN/../$LIB",
		"/a/b/../c":                   "/a/b/../c", // b may be a symbolic link
	} {
		if got := Key(in); got != want {
			t.Errorf("Key(%q) = %q, want %q", in, got, want)
		}
	}
}

// world is the settings that the table tests and the property tests share:
// directories are compat or hold libraries by what their names say.
func world() *Settings {
	return &Settings{
		DriverLink: "/run/opengl-driver/lib",
		IsStub:     func(e string) bool { return strings.Contains(e, "stubs") },
		IsCompat:   func(e string) bool { return strings.HasSuffix(e, "/compat") && strings.HasPrefix(e, "/has-cuda") },
		IsDriverLibrary: func(n string) bool {
			return n == "libcuda.so.1" || n == "libnvidia-ml.so.1"
		},
		Holds: func(e, n string) bool {
			return n == "libcuda.so.1" && strings.HasPrefix(e, "/has-cuda") || n == "libblas.so" && e == "/blas"
		},
		Offers: func(e, n string) bool { return n == "libblas.so" || n == "libcuda.so.1" },
	}
}

func TestNormalForm(t *testing.T) {
	const link = "/run/opengl-driver/lib"
	for _, c := range []struct {
		name string
		in   string
		maps Map
		set  func(*Settings)
		want string
		note Notes
	}{
		{name: "no run path gets the driver link and no colon", maps: AddDriverLink, want: link},
		{name: "nothing asked, nothing there", want: ""},
		{name: "driver link first", in: "/a:/b", maps: AddDriverLink, want: link + ":/a:/b"},
		{name: "driver link last on request", in: "/a:/b", maps: AddDriverLink, want: "/a:/b:" + link,
			set: func(s *Settings) { s.DriverLast = true }},
		{name: "driver link moves to the front and appears once", in: "/a:" + link + ":/b:" + link, maps: AddDriverLink, want: link + ":/a:/b"},
		{name: "another spelling of the driver link is the driver link", in: "/a:/run//opengl-driver/lib/", maps: AddDriverLink, want: link + ":/a"},
		{name: "compat before driver link", in: link + ":/a", maps: AddCompat, want: "/c:" + link + ":/a",
			set: func(s *Settings) { s.Compat = "/c" }},
		{name: "compat first even where the driver link is last", in: link + ":/a", maps: AddCompat, want: "/c:/a:" + link,
			set: func(s *Settings) { s.Compat, s.DriverLast = "/c", true }},
		{name: "a compat directory that is the driver link is the driver link", in: "/a", maps: AddCompat, want: link + ":/a",
			set: func(s *Settings) { s.Compat = link + "/" }},
		{name: "the compat directory in a stub's place", in: "/x/stubs:/a", maps: ReplaceStubs, want: "/c:" + link + ":/a", note: Notes{Stubs: []string{"/x/stubs"}},
			set: func(s *Settings) { s.Compat, s.CompatForStubs = "/c", true }},
		{name: "the compat directory where the stub is gone already", in: "/a", maps: ReplaceStubs, want: "/c:" + link + ":/a", note: Notes{DriverFor: []string{"libcuda.so.1"}},
			set: func(s *Settings) { s.Compat, s.CompatForStubs, s.Needed = "/c", true, []string{"libcuda.so.1"} }},
		{name: "the compat directory, and no stub", in: "/a", maps: ReplaceStubs, want: "/a",
			set: func(s *Settings) { s.Compat, s.CompatForStubs = "/c", true }},
		{name: "a compat directory is known by its name and what it holds", in: "/a:/compat:/has-cuda/compat:" + link, maps: AddDriverLink,
			want: "/has-cuda/compat:" + link + ":/a:/compat"},
		{name: "an ordinary directory that holds the driver is not moved", in: "/a:/has-cuda/lib", maps: AddDriverLink, want: link + ":/a:/has-cuda/lib"},
		{name: "a stub becomes the driver link", in: "/a:/stubs:/b", maps: ReplaceStubs, want: link + ":/a:/b", note: Notes{Stubs: []string{"/stubs"}}},
		{name: "no stub, no driver link", in: "/a", maps: ReplaceStubs, want: "/a"},
		{name: "the stub is gone already but the library is needed", in: "/a", maps: ReplaceStubs, want: link + ":/a",
			set: func(s *Settings) { s.Needed = []string{"libc.so.6", "libcuda.so.1"} }, note: Notes{DriverFor: []string{"libcuda.so.1"}}},
		{name: "needed and held by an ordinary entry", in: "/has-cuda/lib", maps: ReplaceStubs, want: "/has-cuda/lib",
			set: func(s *Settings) { s.Needed = []string{"libcuda.so.1"} }},
		{name: "needed and held by the compat directory only", in: "/has-cuda/compat", maps: ReplaceStubs, want: "/has-cuda/compat:" + link,
			set: func(s *Settings) { s.Needed = []string{"libcuda.so.1"} }, note: Notes{DriverFor: []string{"libcuda.so.1"}}},
		{name: "the driver tool leaves stubs where they are", in: "/a:/stubs", maps: AddDriverLink, want: link + ":/a:/stubs"},
		{name: "empty entries are dropped", in: ":/a::/b:", maps: AddDriverLink, want: link + ":/a:/b", note: Notes{Empties: 3}},
		{name: "a list of empty entries only", in: ":", maps: ReplaceStubs, want: "", note: Notes{Empties: 2}},
		{name: "empty entries stay on request", in: ":/a:", maps: AddDriverLink, want: link + "::/a:",
			set: func(s *Settings) { s.KeepEmpty = true }, note: Notes{Empties: 2}},
		{name: "duplicates are reported", in: "/a:/b:/a/", maps: AddDriverLink, want: link + ":/a:/b:/a/", note: Notes{Duplicates: []string{"/a/"}}},
		{name: "duplicates go on request", in: "/a:/b:/a/", maps: AddDriverLink, want: link + ":/a:/b",
			set: func(s *Settings) { s.Dedupe = true }, note: Notes{Duplicates: []string{"/a/"}}},
		{name: "tokens stay verbatim", in: "${ORIGIN}/../$LIB:$PLATFORM/", maps: AddDriverLink, want: link + ":${ORIGIN}/../$LIB:$PLATFORM/"},
		{name: "a toolkit stub that was needed is missing", in: "/stubs", maps: ReplaceStubs, want: link,
			set: func(s *Settings) { s.Needed = []string{"libblas.so", "libcuda.so.1", "libblas.so"} }, note: Notes{Stubs: []string{"/stubs"}, Missing: []string{"libblas.so"}}},
		{name: "a toolkit stub beside the real library", in: "/stubs:/blas", maps: ReplaceStubs, want: link + ":/blas",
			set: func(s *Settings) { s.Needed = []string{"libblas.so"} }, note: Notes{Stubs: []string{"/stubs"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := world()
			if c.set != nil {
				c.set(s)
			}
			got, notes := s.Apply(Parse(c.in), c.maps)
			if got.String() != c.want {
				t.Errorf("%q became %q, want %q", c.in, got, c.want)
			}
			if diff := cmp.Diff(c.note, notes); diff != "" {
				t.Errorf("notes: %s", diff)
			}
		})
	}
}

// entries is drawn from so that every kind of entry, and every spelling, meets every other.
var entries = []string{
	"", "", "/a", "/a/", "/b", "$ORIGIN", "${ORIGIN}", "$ORIGIN/../lib", ".", "/blas",
	"/run/opengl-driver/lib", "/run/opengl-driver/lib/", "/run/./opengl-driver//lib",
	"/opt/link", "/opt/compat", "/has-cuda/compat", "/has-cuda/compat/", "/has-cuda/2/compat", "/has-cuda/lib", "/compat",
	"/x/stubs", "/y/stubs/", "/cuda-stubs/lib",
}

func drawSettings(t *rapid.T) *Settings {
	s := world()
	s.DriverLink = rapid.SampledFrom([]string{"/run/opengl-driver/lib", "/run/opengl-driver/lib/", "/opt/link"}).Draw(t, "driver link")
	s.Compat = rapid.SampledFrom([]string{"", "/opt/compat", "/has-cuda/compat", "/has-cuda/compat/", "/opt/link"}).Draw(t, "compat")
	s.CompatForStubs = rapid.Bool().Draw(t, "compat for stubs")
	s.DriverLast = rapid.Bool().Draw(t, "last")
	s.KeepEmpty = rapid.Bool().Draw(t, "keep empty")
	s.Dedupe = rapid.Bool().Draw(t, "dedupe")
	s.Needed = rapid.SliceOfN(rapid.SampledFrom([]string{"libc.so.6", "libcuda.so.1", "libnvidia-ml.so.1", "libblas.so"}), 0, 3).Draw(t, "needed")
	return s
}

func drawList(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(entries), 0, 7).Draw(t, "list"), ":")
}

// run applies one map through text, as separate runs of the tools on a file do.
func run(s *Settings, list string, maps Map) string {
	after, _ := s.Apply(Parse(list), maps)
	return after.String()
}

var tools = []Map{ReplaceStubs, AddDriverLink, AddCompat}

func TestAnyOrderAnyNumberOfTimesIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, list := drawSettings(t), drawList(t)
		subset := rapid.SliceOfNDistinct(rapid.SampledFrom(tools), 1, 3, rapid.ID).Draw(t, "tools")
		var all Map
		for _, m := range subset {
			all |= m
		}
		want := run(s, list, all)
		// Each tool at least once, in any order, with repetitions and combinations between them.
		sequence := append(slices.Clone(subset), rapid.SliceOfN(rapid.SampledFrom(append(slices.Clone(subset), all, 0)), 0, 4).Draw(t, "again")...)
		sequence = rapid.Permutation(sequence).Draw(t, "order")
		got := list
		for _, m := range sequence {
			got = run(s, got, m)
		}
		if got != want {
			t.Fatalf("%q: maps %v one after the other give\n%q, at once\n%q", list, sequence, got, want)
		}
	})
}

func TestOnceIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, list, m := drawSettings(t), drawList(t), Map(rapid.IntRange(0, 7).Draw(t, "maps"))
		once := run(s, list, m)
		if twice := run(s, once, m); twice != once {
			t.Fatalf("%q: once %q, twice %q", list, once, twice)
		}
	})
}

func TestOrderAndOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, list, m := drawSettings(t), drawList(t), Map(rapid.IntRange(0, 7).Draw(t, "maps"))
		after := Parse(run(s, list, m))
		rank := func(e string) int {
			switch ownerOf(s, e) {
			case compat:
				return 0
			case driver:
				if s.DriverLast {
					return 3
				}
				return 1
			}
			return 2
		}
		seen := map[string]bool{}
		for i, e := range after {
			if i > 0 && rank(after[i-1]) > rank(e) {
				t.Fatalf("%q: %q comes before %q", after, after[i-1], e)
			}
			if who := ownerOf(s, e); who == compat || who == driver || s.Dedupe && e != "" {
				if seen[Key(e)] {
					t.Fatalf("%q: %q appears twice", after, e)
				}
				seen[Key(e)] = true
			}
			if m&ReplaceStubs != 0 && ownerOf(s, e) == stub {
				t.Fatalf("%q: stub %q", after, e)
			}
		}
		if m&AddDriverLink != 0 && !slices.Contains(after, s.DriverLink) {
			t.Fatalf("%q: no driver link", after)
		}
		if m&AddCompat != 0 && s.Compat != "" && Key(s.Compat) != Key(s.DriverLink) && after[0] != s.Compat {
			t.Fatalf("%q: compat is not first", after)
		}
	})
}

func TestNothingElseMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, list, m := drawSettings(t), drawList(t), Map(rapid.IntRange(0, 7).Draw(t, "maps"))
		s.Dedupe = false
		others := func(l List) (kept []string) {
			for _, e := range l {
				who := ownerOf(s, e)
				if who == other || who == empty && s.KeepEmpty || who == stub && m&ReplaceStubs == 0 {
					kept = append(kept, e)
				}
			}
			return kept
		}
		before := Parse(list)
		original := slices.Clone(before)
		after, _ := s.Apply(before, m)
		if !slices.Equal(others(before), others(after)) {
			t.Fatalf("%q: the entries of others became %q", list, others(after))
		}
		if !slices.Equal(before, original) {
			t.Fatalf("the argument was modified")
		}
	})
}

func TestNeverAnEmptyEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, list, m := drawSettings(t), drawList(t), Map(rapid.IntRange(0, 7).Draw(t, "maps"))
		s.KeepEmpty = false
		if after := run(s, list, m); Parse(after).Empties() > 0 {
			t.Fatalf("%q became %q", list, after)
		}
	})
}

func TestUniqueAndDuplicatesAreTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Parse(drawList(t))
		unique, duplicates := l.Unique(), l.Duplicates()
		if len(unique)+len(duplicates) != len(l) || len(unique.Duplicates()) > 0 {
			t.Fatalf("%q: unique %q, duplicates %q", l, unique, duplicates)
		}
		if unique.Empties() != l.Empties() {
			t.Fatalf("%q: empty entries are not counted as duplicates: %q", l, unique)
		}
		for _, e := range duplicates {
			if !slices.ContainsFunc(unique, func(u string) bool { return Key(u) == Key(e) }) {
				t.Fatalf("%q: %q is gone", l, e)
			}
		}
	})
}

func TestWithoutTakesOutEverySpelling(t *testing.T) {
	l := Parse("/a:/b/:${ORIGIN}/x::/a//:/c")
	for _, c := range []struct {
		dirs []string
		want string
	}{
		{[]string{"/a"}, "/b/:${ORIGIN}/x::/c"},
		{[]string{"/b", "$ORIGIN/x"}, "/a::/a//:/c"},
		{[]string{""}, "/a:/b/:${ORIGIN}/x:/a//:/c"},
		{[]string{"/nothing", "/"}, l.String()},
		{nil, l.String()},
		{[]string{"/a", "/b", "$ORIGIN/x", "/c"}, ":"},
	} {
		if got := l.Without(c.dirs...).String(); got != c.want {
			t.Errorf("without %q: %q, not %q", c.dirs, got, c.want)
		}
	}
	if l.String() != "/a:/b/:${ORIGIN}/x::/a//:/c" {
		t.Error("the list was modified")
	}
}

func ownerOf(s *Settings, entry string) owner {
	return s.owner(Key(entry), Key(s.DriverLink), Key(s.Compat))
}
