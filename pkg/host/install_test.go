package host

import (
	"os"
	"path/filepath"
	"testing"
)

// What is judged without the lock may go, or come, in between: that is no error.
func TestJudgeWhileOthersInstall(t *testing.T) {
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib")
	driver := t.TempDir()
	if err := os.Symlink("/elsewhere/libcuda.so.1", filepath.Join(driver, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Symlink(generation+"0", lib) // as an installation,
			os.Remove(lib)                  // as its removal,
			os.Rename(driver, lib)          // and as a directory of links that an installation replaces
			os.Rename(lib, driver)
		}
	}()
	in := openRoot(t, dir)
	counts := map[string]int{}
	for range 50000 {
		i := &Install{Link: lib}
		if err := i.judge(in, &Offer{}, generation+"1"); err != nil {
			t.Error(err)
			break
		}
		counts[i.Action]++
	}
	close(stop)
	<-stopped
	if counts["made"] == 0 || counts["replaced"] == 0 {
		t.Errorf("the test tests nothing: %v", counts)
	}
}
