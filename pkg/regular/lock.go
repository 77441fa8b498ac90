package regular

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// tryLock takes the lock of an open file (flock(2)), and returns unix.EWOULDBLOCK if another process has it. On a
// file system without locks it always succeeds. Closing the descriptor gives the lock back.
func tryLock(fd int) error {
	err := Uninterrupted(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	return nil
}

// Lock takes the lock of an open file, and waits for whoever has it until ctx is cancelled. It calls waiting, if not
// nil, once after patience has passed.
func Lock(ctx context.Context, fd int, patience time.Duration, waiting func()) error {
	began := time.Now()
	for wait := time.Millisecond; tryLock(fd) != nil; wait = min(2*wait, 100*time.Millisecond) {
		if waiting != nil && time.Since(began) >= patience {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
	return nil
}

// Unlock gives the lock of a file back that stays open.
func Unlock(fd int) { _ = unix.Flock(fd, unix.LOCK_UN) }
