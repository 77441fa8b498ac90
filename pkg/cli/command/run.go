package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Exit statuses.
const (
	StatusOK      = 0
	StatusFailed  = 1 // something failed, or a check found something
	StatusMisused = 2 // usage error
)

// ErrFailed makes the exit status 1. What failed has been reported already.
var ErrFailed = errors.New("something failed")

// Misuse is a wrong command line.
type Misuse string

func (m Misuse) Error() string { return string(m) }

// Misusef makes a Misuse.
func Misusef(format string, args ...any) error { return Misuse(fmt.Sprintf(format, args...)) }

// misuseOf is a Misuse, and the command whose help has the answer: "runpath cache write".
type misuseOf struct {
	error
	words string
}

func (m *misuseOf) Unwrap() error { return m.error }

// Of returns the error of the command to which words lead, which a Misuse is to name.
func Of(words string, err error) error {
	var misuse Misuse
	var known *misuseOf
	if words == "" || !errors.As(err, &misuse) || errors.As(err, &known) {
		return err
	}
	return &misuseOf{err, words}
}

// Run carries out a program's command line and returns the exit status. Flags may come
// before or after the arguments; "--" ends them. read is given the command line with flags
// first; it reads it and carries it out.
func Run(app *Command, args []string, stdout, stderr io.Writer,
	read func(ctx context.Context, args []string, stdout io.Writer) error) int {
	ctx := &untilSignal{}
	defer ctx.end()
	if completes(args) {
		complete(app, args, stdout)
		return StatusOK
	}
	if app.Arguments != nil {
		var err error
		if args, err = app.Arguments(args); err != nil {
			return app.status(err, stderr)
		}
	}
	out := &checked{Writer: stdout}
	return app.status(out.or(read(ctx, flagsFirst(app.Flags, app.Commands, args), out)), stderr)
}

// checked remembers that something could not be written. Not every command looks, and
// urfave/cli does not.
type checked struct {
	io.Writer
	err error
}

func (w *checked) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// or returns err, or where that says nothing what could not be written.
func (w *checked) or(err error) error {
	if w.err != nil && (err == nil || errors.Is(err, ErrFailed)) {
		return fmt.Errorf("writing to stdout: %w", w.err)
	}
	return err
}

// status says what went wrong, and returns the exit status.
func (c *Command) status(err error, stderr io.Writer) int {
	var misuse Misuse
	switch {
	case err == nil:
		return StatusOK
	case errors.Is(err, ErrFailed):
		return StatusFailed
	case errors.As(err, &misuse):
		words := c.Name
		if of := (*misuseOf)(nil); errors.As(err, &of) {
			words = of.words
		}
		fmt.Fprintf(stderr, "%s: %s (see %s --help)\n", c.Name, InkFor(stderr).Paint(Red, oneLine(err)), words)
		return StatusMisused
	}
	fmt.Fprintf(stderr, "%s: %s\n", c.Name, InkFor(stderr).Paint(Red, oneLine(err)))
	return StatusFailed
}

// oneLine is what an error says, as it can stand in a line for a terminal.
func oneLine(err error) string { return Printable(strings.ReplaceAll(err.Error(), "\n", "; ")) }

// untilSignal is a context that ends with the first signal that asks the process to
// end. It listens from when it is first asked. The tools ask before they write: until
// then there is nothing to finish, and a signal ends the process.
type untilSignal struct {
	once sync.Once
	ctx  context.Context
	stop context.CancelFunc
}

func (u *untilSignal) listen() context.Context {
	u.once.Do(func() {
		u.ctx, u.stop = signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		context.AfterFunc(u.ctx, u.stop) // a second signal ends the process at once
	})
	return u.ctx
}

func (u *untilSignal) end() {
	if u.stop != nil {
		u.stop()
	}
}

func (u *untilSignal) Deadline() (time.Time, bool) { return time.Time{}, false }
func (u *untilSignal) Done() <-chan struct{}       { return u.listen().Done() }
func (u *untilSignal) Err() error                  { return u.listen().Err() }
func (u *untilSignal) Value(key any) any           { return u.listen().Value(key) }
