package sandbox

import "testing"

// The last is as Nix 2.8 writes it, but for its length.
func TestDerivationsThatAskForGPU(t *testing.T) {
	const head, tail = `Derive([("out","/store/x-out","","")],[("/store/y.drv",["out"])],["/store/s"],"x86_64-linux","/bin/sh",["-c","echo \"cuda\""],[`, `])`
	for _, test := range []struct {
		drv  string
		asks bool
		ok   bool
	}{
		{head + `("requiredSystemFeatures","cuda")` + tail, true, true},
		{head + `("name","x"),("requiredSystemFeatures","kvm\n nvidia-gpu")` + tail, true, true},
		{head + `("requiredSystemFeatures","big-parallel"),("x","cuda")` + tail, false, true},
		{head + `("requiredSystemFeatures","cuda-x")` + tail, false, true},
		{head + tail, false, true},
		{head + `("__json","{\"requiredSystemFeatures\":[\"kvm\",\"opengl\"],\"x\":\"\\n\"}")` + tail, true, true},
		{head + `("__json","{\"requiredSystemFeatures\":\"gpu kvm\"}")` + tail, true, true},
		{head + `("__json","{\"requiredSystemFeatures\":[],\"x\":\"cuda\"}")` + tail, false, true},
		{head + `("__json","{\"requiredSystemFeatures\":7,\"x\":\"cuda\"}")` + tail, false, false},
		{head + `("__json","{\"requiredsystemfeatures\":[\"gpu\"]}")` + tail, false, true},
		{head + `("__json","{cuda")` + tail, false, false},
		{`DrvWithVersion("xp-dyn-drv",[("out","/x","","")],[("/y.drv",(["out"],[("z",["out"])]))],[],"s","b",[],[("requiredSystemFeatures","cuda")])`, true, true},
		{"no derivation", false, true}, // nothing in it names a feature
		{"cuda", false, false},
		{head + `("x","(\"requiredSystemFeatures\",\"cuda\")")` + tail, false, true},
		{head + `("x","a("),("requiredSystemFeatures","a\\"),("y","cuda")` + tail, false, true},
		{`Derive([("requiredSystemFeatures","cuda","","")],[],[],"s","b",[],[])`, false, true}, // an output
		{"Derive(cuda", false, true},
		{`Derive(("requiredSystemFeatures","cuda\`, false, true},
	} {
		asks, err := AsksForGPU([]byte(test.drv))
		if asks != test.asks || (err == nil) != test.ok {
			t.Errorf("%.200s: %v, %v", test.drv, asks, err)
		}
	}
}
