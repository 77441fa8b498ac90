package patchelf

import (
	"io"
	"os"
	runtime "runtime/debug"
	"sync"

	"cuda-runpath/pkg/patchelf"
)

// several carries a command out on its files, one after the other in their order. Meanwhile
// jobs others read the next ones and plan their edits, which changes nothing: where a
// file fails, those that follow it are as they were.
func several(c *patchelf.Command, jobs int, out, stderr io.Writer) error {
	if os.Getenv("GOGC") == "" { // as the other tools: see cli.Start
		runtime.SetGCPercent(300)
	}
	ahead := min(4*jobs, 64) // files that are open and in memory
	plans := make([]chan *planned, len(c.Files))
	for i := range plans {
		plans[i] = make(chan *planned, 1)
	}
	next := make(chan int, ahead)
	var planning sync.WaitGroup
	for range jobs {
		planning.Go(func() {
			for i := range next {
				plans[i] <- plan(c, c.Files[i])
			}
		})
	}
	started := 0
	start := func(end int) {
		for ; started < min(end, len(c.Files)); started++ {
			next <- started
		}
	}
	type inode struct{ dev, ino uint64 }
	written := map[inode]bool{}
	var err error
	done := 0
	for ; done < len(c.Files) && err == nil; done++ {
		start(done + ahead)
		p := <-plans[done]
		id := inode{}
		if p.f != nil {
			id.dev, id.ino = p.f.ID()
		}
		if written[id] { // named twice: what was planned is about what it was before
			p.close()
			p = plan(c, p.path)
		}
		if err = p.finish(c, out, stderr); p.changes() {
			written[id] = true
		}
		p.close()
	}
	close(next)
	planning.Wait()
	for ; done < started; done++ {
		(<-plans[done]).close()
	}
	return err
}
