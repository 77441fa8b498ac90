package regular

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// TryLock takes the lock of an open file (flock(2)); unix.EWOULDBLOCK where another process has it. A file system without
// locks has free ones only. Closing the descriptor gives it back.
func TryLock(fd int) error {
	err := Uninterrupted(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	return nil
}

// Lock takes the lock of an open file, and waits for who has it, as long as ctx is not cancelled. waiting, nil for none,
// is called once, if that takes longer than patience.
func Lock(ctx context.Context, fd int, patience time.Duration, waiting func()) error {
	began := time.Now()
	for wait := time.Millisecond; TryLock(fd) != nil; wait = min(2*wait, 100*time.Millisecond) {
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

// Unlock gives a lock back whose file stays open.
func Unlock(fd int) { _ = unix.Flock(fd, unix.LOCK_UN) }
