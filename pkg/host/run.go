package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/elfimage"
)

// Method is a way to offer a directory to one program.
type Method string

// The methods.
const (
	Auto        Method = "auto"         // the first of those below that works here
	InPlace     Method = "in-place"     // the driver link holds the right driver already
	Namespace   Method = "namespace"    // a mount namespace in which the driver link leads to the directory
	LibraryPath Method = "library-path" // LD_LIBRARY_PATH
)

// Run starts a program with the private directories offered to it alone.
type Run struct {
	Method  Method
	Prefix  string // what stands for /run/opengl-driver
	Offers  []Private
	Stage   string // an existing directory of the user's, to mount on inside the namespace
	Program []string
	Log     func(format string, args ...any)
}

// Exec replaces this process by the program or, with a namespace, waits for it and
// ends as it ended. It returns only where the program could not be started.
func (r *Run) Exec() error {
	file, err := exec.LookPath(r.Program[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		var ee *exec.Error
		if errors.As(err, &ee) {
			err = reason(ee.Err)
		}
		return &StartError{r.Program[0], err}
	}
	if r.Method == Auto || r.Method == Namespace {
		err := r.inNamespace(file)
		if r.Method == Namespace || errors.As(err, new(*StartError)) {
			return err
		}
		r.Log("no mount namespace here: %v", err)
	}
	keepIgnoring()
	env := os.Environ()
	if r.Method != InPlace {
		dirs := r.searched(file)
		for _, dir := range dirs {
			if i := strings.IndexAny(dir, ":;$"); i >= 0 {
				return fmt.Errorf("LD_LIBRARY_PATH cannot name %s, for the %q in it: name another directory with --cache", dir, dir[i])
			}
		}
		env = withLibraryPath(env, dirs)
		r.Log("LD_LIBRARY_PATH begins with %s", strings.Join(dirs, ":"))
	}
	return &StartError{file, syscall.Exec(file, r.Program, env)}
}

// StartError means that the program itself could not be started.
type StartError struct {
	Program string
	Err     error
}

func (e *StartError) Error() string { return fmt.Sprintf("%s: %v", e.Program, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// Status is the exit status that env(1) and shells give: 127 not found, 126 found and not startable.
func (e *StartError) Status() int {
	if errors.Is(e.Err, fs.ErrNotExist) || errors.Is(e.Err, exec.ErrNotFound) {
		return 127
	}
	return 126
}

// searched returns the directories for the program's own kind. A script may start
// programs of any kind, so it gets all.
func (r *Run) searched(file string) []string {
	var dirs, all []string
	f, err := os.Open(file)
	var im *elfimage.Image
	if err == nil {
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			im, _ = elfimage.Parse(f, info.Size())
		}
	}
	for _, o := range r.Offers {
		all = append(all, o.Dir)
		if m, err := MachineNamed(o.Machine); err == nil && im != nil && m.Machine == im.Machine && m.Class == im.Class {
			dirs = append(dirs, o.Dir)
		}
	}
	if dirs == nil {
		return all
	}
	return dirs
}

// withLibraryPath puts directories before those of LD_LIBRARY_PATH. An empty entry
// would mean the working directory, so there is none unless the caller had one.
func withLibraryPath(env []string, dirs []string) []string {
	const name = "LD_LIBRARY_PATH="
	list := strings.Join(dirs, ":")
	var rest []string
	for _, e := range env {
		if old, ok := strings.CutPrefix(e, name); ok {
			if old != "" {
				list += ":" + old
			}
			continue
		}
		rest = append(rest, e)
	}
	return append(rest, name+list)
}

// enterName is this program's argv[0] where it is to finish a namespace from inside.
const enterName = "hostDriver-namespace"

const stageName = "stage"

// inNamespace starts the program in a mount namespace of its own. Only a process
// with a single thread can enter a new user namespace, which a Go program is not,
// so the new process is made in it: this program again, which puts the directories
// in place and becomes the program. This process stays as its parent: signals and
// the exit status go through.
func (r *Run) inNamespace(file string) error {
	args := []string{enterName, r.Stage}
	for _, o := range r.Offers {
		m, err := MachineNamed(o.Machine)
		if err != nil {
			return err
		}
		args = append(args, m.link(r.Prefix), o.Dir)
	}
	args = append(append(append(args, "--"), file), r.Program...)
	said, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: args,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		ExtraFiles:  []*os.File{says},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL},
	}
	if !mayMount() {
		if os.Geteuid() == 0 {
			// In a user namespace with this one ID, root could no longer be anybody else, nor own anything of theirs.
			return errors.New("root without CAP_SYS_ADMIN (a container?)")
		}
		uid, gid := os.Geteuid(), os.Getegid()
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		// The user keeps the user's IDs, so files and the GPU's devices are as before.
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process ends
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	keepIgnoring()
	err = cmd.Start()
	says.Close()
	if err != nil {
		signal.Stop(signals)
		signal.Reset()
		return fmt.Errorf("starting in a new namespace: %w", reason(err))
	}
	go func() {
		for s := range signals {
			if s != unix.SIGINT && s != unix.SIGQUIT || !atTerminal() {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	// Nothing said and the pipe closed: the program has begun.
	b, _ := io.ReadAll(io.LimitReader(said, 4096))
	if len(b) > 0 {
		_ = cmd.Wait()
		signal.Stop(signals)
		signal.Reset()
		if text, ok := strings.CutPrefix(string(b), "start: "); ok {
			return &StartError{file, startErrno(text)}
		}
		return errors.New(string(b))
	}
	r.Log("a mount namespace in which %s is %s", strings.Join(args[2:3], ""), r.Offers[0].Dir)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	endAs(cmd.ProcessState)
	return nil
}

// forwarded are the signals that somebody may send to this process and mean the
// program. Stop and continue act on both, which share a process group.
var forwarded = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH,
}

// ignored are the signals that whoever started this process lets it ignore, as
// nohup and shells' background jobs do. Go tells it of these two only; shells that
// ignore SIGINT for a background job ignore SIGQUIT with it (POSIX, "Asynchronous Lists").
var ignored = func() (signals []os.Signal) {
	if signal.Ignored(unix.SIGHUP) {
		signals = append(signals, unix.SIGHUP)
	}
	if signal.Ignored(unix.SIGINT) {
		signals = append(signals, unix.SIGINT, unix.SIGQUIT)
	}
	return signals
}()

// keepIgnoring lets the program ignore them too.
func keepIgnoring() {
	if len(ignored) > 0 {
		signal.Ignore(ignored...)
	}
}

// atTerminal tells whether this process is in a terminal's foreground, where
// keys send their signals to the program too.
func atTerminal() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// endAs ends this process as another one ended, by the same signal if it was one.
func endAs(state *os.ProcessState) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		// One core file, the program's, is enough.
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		// Go keeps a handler of its own for SIGSEGV and others: take it out of the way.
		var byDefault [64]byte // struct sigaction with SIG_DFL, no flags, an empty mask
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(ws.Signal()), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), ws.Signal())
		os.Exit(128 + int(ws.Signal()))
	}
	os.Exit(state.ExitCode())
}

// mayMount tells whether this process may mount without a user namespace.
func mayMount() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

func startErrno(text string) error {
	for e := unix.Errno(1); e < 134; e++ {
		if e.Error() == text {
			return e
		}
	}
	return errors.New(text)
}

// Enter does nothing unless this process is the one that [Run.Exec] started inside
// a namespace; then it never returns. It must be the first thing that main calls.
func Enter() {
	if len(os.Args) < 1 || os.Args[0] != enterName {
		return
	}
	says := os.NewFile(3, "pipe")
	unix.CloseOnExec(3)
	fail := func(format string, args ...any) {
		fmt.Fprintf(says, format, args...)
		os.Exit(125)
	}
	runtime.LockOSThread() // ambient capabilities belong to a thread
	// Lost on the way here where capabilities changed.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		fail("prctl: %v", err)
	}
	args := os.Args[1:]
	if len(args) < 3 {
		fail("started by hand")
	}
	stage, args := args[0], args[1:]
	// Mounts of the host still come in; ours do not go out.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		fail("making mounts private: %v", err)
	}
	for len(args) >= 2 && args[0] != "--" {
		if err := placeAt(args[0], args[1], stage); err != nil {
			fail("%v", err)
		}
		args = args[2:]
	}
	if len(args) < 3 || args[0] != "--" {
		fail("started by hand")
	}
	if err := dropCapabilities(); err != nil {
		fail("dropping capabilities: %v", err)
	}
	keepIgnoring()
	err := syscall.Exec(args[1], args[2:], os.Environ())
	fail("start: %v", err)
}

// dropCapabilities leaves the program none of those that the mounts needed.
func dropCapabilities() error {
	if os.Geteuid() == 0 {
		return nil // root's own
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&hdr, &none[0])
}

// placeAt lets a path lead to a directory, in this mount namespace.
func placeAt(link, dir, stage string) error {
	if info, err := os.Stat(link); err == nil && info.IsDir() {
		if err := unix.Mount(dir, link, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", dir, link, err)
		}
		return nil
	}
	// The first directory on the way that is there gets a new entry.
	parent := filepath.Dir(link)
	for {
		info, err := os.Lstat(parent)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is in the way", parent)
		}
		if err == nil {
			break
		}
		parent = filepath.Dir(parent)
	}
	if parent == "/" {
		return fmt.Errorf("there is no directory %s to put it in", filepath.Dir(filepath.Dir(link)))
	}
	if err := unix.Mount("hostDriver", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=8m"); err != nil {
		return fmt.Errorf("mounting a tmpfs: %w", err)
	}
	rest, err := filepath.Rel(parent, link)
	if err != nil {
		return err
	}
	at := filepath.Join(stage, rest)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(dir, at); err != nil {
		return err
	}
	if err := showAll(parent, stage, strings.Split(rest, "/")[0]); err != nil {
		return err
	}
	// As little can be written in it as in the directory that it stands for.
	if err := unix.Mount("", stage, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("making %s read-only: %w", parent, err)
	}
	if err := unix.Mount(stage, parent, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the new %s into place: %w", parent, err)
	}
	return nil
}

// showAll gives a new directory every entry of an old one but one: directories,
// sockets and files as mounts of the very same ones, so that what is written there is seen outside.
func showAll(old, fresh, but string) error {
	entries, err := os.ReadDir(old)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == but {
			continue
		}
		from, to := filepath.Join(old, e.Name()), filepath.Join(fresh, e.Name())
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(from)
			if err == nil {
				err = os.Symlink(target, to)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		case e.IsDir():
			err = os.Mkdir(to, 0o755)
		default:
			err = os.WriteFile(to, nil, 0o644)
		}
		if err != nil {
			return err
		}
		err = unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(to) // it went away meanwhile
		}
		if err != nil {
			return fmt.Errorf("showing %s: %w", from, err)
		}
	}
	return nil
}
