module cuda-runpath

go 1.25.0

// Nobody watches whether the number of processors changes: a tool runs for milliseconds, and
// the goroutine that would watch is woken, on a thread of its own, in every start.
godebug updatemaxprocs=0

require (
	github.com/google/go-cmp v0.7.0
	// For tests alone: the standard library does not compress by zstd.
	github.com/klauspost/compress v1.20.3
	github.com/rogpeppe/go-internal v1.16.0
	github.com/sirupsen/logrus v1.10.2
	github.com/urfave/cli/v2 v2.27.7
	golang.org/x/sys v0.46.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/cpuguy83/go-md2man/v2 v2.0.7 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/xrash/smetrics v0.0.0-20240521201337-686a1a2994c1 // indirect
	golang.org/x/tools v0.26.0 // indirect
)
