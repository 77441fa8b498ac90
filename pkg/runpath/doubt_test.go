package runpath

import (
	"strings"
	"testing"
)

func TestWhatAMangledEntryWasMeantToBe(t *testing.T) {
	for entry, want := range map[string]string{
		"RIGIN/../lib": "$ORIGIN/../lib", "$(ORIGIN)": "$ORIGIN", "@loader_path/x": "$ORIGIN/x", `\$ORIGIN/lib`: "$ORIGIN/lib", "'/opt/lib'": "/opt/lib",
		"/a;RIGIN/b;": "/a:$ORIGIN/b", "~/lib": "", "/opt/lib ": "/opt/lib",
		"/a,/b": "/a:/b", "$ORIGIN/a, $(ORIGIN),${ORIGIN}/../b": "$ORIGIN/a:$ORIGIN:${ORIGIN}/../b", "/a,": "/a",
	} {
		if got, ok := Meant(entry); !ok || strings.Join(got, ":") != want {
			t.Errorf("%q: %q, want %q", entry, got, want)
		}
	}
	for _, entry := range []string{"/opt/lib", "$ORIGIN", "$ORIGIN/../lib", "ORIGINAL", "RIGINS/x", "/opt/a,b", "/opt/a,b/c", "a,/b"} {
		if got, ok := Meant(entry); ok {
			t.Errorf("%q is one: %q", entry, got)
		}
	}
}
