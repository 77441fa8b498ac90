package fixup

import "testing"

// The first candidates of two needs are in directories of which each has to come before the other: both are taken from
// the one that has both.
func TestCandidatesThatGoTogether(t *testing.T) {
	s := newStage(t)
	s.put("out/lib/libk.so", lib("libk.so").defines("V_0").Object)
	s.put("out/lib/libq.so", lib("libq.so").Object)
	s.put("both/libk.so", lib("libk.so").defines("V_1").Object)
	s.put("both/libq.so", lib("libq.so").defines("V_1").Object)
	s.libs("~/both")
	s.put("out/bin/main", prog("libk.so", "libq.so").requires("libk.so", "V_1").Object)
	r := s.resolve()
	r.list("out/bin/main", "~/both")
	if p := r.plan("out/bin/main"); p.Err != nil {
		t.Error(p.Err)
	}
}
