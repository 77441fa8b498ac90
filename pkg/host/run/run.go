// Package run starts a program with a driver's libraries offered to it alone.
package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/private"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
)

// Method is a way to offer a directory to one program.
type Method string

// The methods.
const (
	Auto        Method = "auto"         // the first of those below that works here
	AsIs        Method = "as-is"        // nothing: LD_LIBRARY_PATH has a driver, which is in no place that is known
	InPlace     Method = "in-place"     // the driver link holds the right driver already
	Namespace   Method = "namespace"    // a mount namespace in which the driver link leads to the directory
	LibraryPath Method = "library-path" // LD_LIBRARY_PATH
)

// Run starts a program with the private directories offered to it alone.
type Run struct {
	Method Method
	Prefix string // what stands for /run/opengl-driver
	Offers []private.Dir
	// Hide are compat directories in which the program is to find the first of Offers instead.
	Hide    []string
	Stage   string // an existing directory of the user's, to mount on inside the namespace
	Program []string
	// Search lets LD_LIBRARY_PATH have the directory beside what Auto and InPlace do: the program does not
	// look into the driver link, or nobody can say what it opens.
	Search bool
	Log    func(format string, args ...any)
	Warn   func() // called where LD_LIBRARY_PATH is used although something comes before it
}

// Exec replaces this process by the program or, with a namespace, waits for it and
// ends as it ended. It returns only where the program could not be started.
func (r *Run) Exec() error {
	file, err := exec.LookPath(r.Program[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		var ee *exec.Error
		if errors.As(err, &ee) {
			err = host.Reason(ee.Err)
		}
		return &StartError{r.Program[0], err}
	}
	if r.Method == AsIs {
		if r.Warn != nil {
			r.Warn()
		}
		keepIgnoring()
		return &StartError{file, execute(file, r.Program, os.Environ())}
	}
	dirs := r.searched(file) // the first is of the program's machine; of a script, of this one
	env, unsearched := os.Environ(), error(nil)
	if r.Search || r.Method == LibraryPath {
		env, unsearched = r.withLibraryPath(dirs)
	}
	if r.Method == Auto || r.Method == Namespace {
		if unsearched != nil {
			r.Log("%v", unsearched)
		}
		err := r.inNamespace(file, r.withVulkan(tellTriton(env, r.Prefix+"/lib"), dirs[0]))
		if r.Method == Namespace || errors.As(err, new(*StartError)) {
			return err
		}
		r.Log("no mount namespace here: %v", err)
		if !r.Search {
			env, unsearched = r.withLibraryPath(dirs)
		}
	}
	dir := r.Prefix + "/lib"
	if r.Method != InPlace {
		if unsearched != nil {
			return unsearched
		}
		if r.Warn != nil {
			r.Warn()
		}
		dir = dirs[0]
		env = r.withVendors(r.withVulkan(env, dir), dir)
	}
	keepIgnoring()
	return &StartError{file, execute(file, r.Program, tellTriton(env, dir))}
}

// tellTriton sets, unless the user has, the variable by which Triton, the compiler in PyTorch, is told
// the directory of libcuda.so.1, which it links with: it asks ldconfig otherwise.
func tellTriton(env []string, dir string) []string {
	const name = "TRITON_LIBCUDA_PATH"
	if os.Getenv(name) != "" {
		return env
	}
	return with(env, name, dir)
}

// with returns an environment in which a variable has a value.
func with(env []string, name, value string) []string {
	return append(slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") }),
		name+"="+value)
}

// has reports whether one of some variables is in an environment.
func has(env []string, names ...string) bool {
	return slices.ContainsFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

// withLibraryPath returns the environment in which LD_LIBRARY_PATH begins with the directories for a
// program; where it cannot name them, an error and the environment as it is.
func (r *Run) withLibraryPath(dirs []string) ([]string, error) {
	for _, dir := range dirs {
		if i := strings.IndexAny(dir, ":;$"); i >= 0 {
			return os.Environ(),
				fmt.Errorf("LD_LIBRARY_PATH cannot name %s, because it contains %q: name another directory with --cache",
					dir, dir[i])
		}
	}
	r.Log("LD_LIBRARY_PATH begins with %s", strings.Join(dirs, ":"))
	return withLibraryPath(os.Environ(), dirs), nil
}

// execute becomes a program. What the kernel does not know, and is text, is a
// script for the shell, as for execvp(3).
func execute(file string, args, env []string) error {
	err := syscall.Exec(file, args, env)
	if !errors.Is(err, unix.ENOEXEC) || !isText(file) {
		return err
	}
	const shell = "/bin/sh"
	return syscall.Exec(shell, append([]string{shell, file}, args[1:]...), env)
}

// isText reports whether a file begins without a NUL, by which shells too tell scripts from other files.
func isText(file string) bool {
	f, _, err := regular.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, 512)
	n, err := io.ReadFull(f, b)
	return (err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && bytes.IndexByte(b[:n], 0) < 0
}

// StartError means that the program itself could not be started.
type StartError struct {
	Program string
	Err     error
}

func (e *StartError) Error() string {
	said := fmt.Sprintf("%s: %v", e.Program, e.Err)
	if _, err := os.Stat(e.Program); err == nil && errors.Is(e.Err, fs.ErrNotExist) {
		said += "; the file is there, but not the interpreter that it asks for: " +
			remedy.Quote("hostDriver", "doctor", e.Program)
	}
	return said
}
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
	if len(r.Offers) == 1 {
		return []string{r.Offers[0].Path}
	}
	var dirs, all []string
	f, info, err := regular.Open(file)
	var im *elfimage.Image
	if err == nil {
		defer f.Close()
		im, _ = elfimage.Parse(f, info.Size())
	}
	for _, o := range r.Offers {
		all = append(all, o.Path)
		if m, err := host.MachineNamed(o.Machine); err == nil && im != nil && m.Machine == im.Machine && m.Class == im.Class {
			dirs = append(dirs, o.Path)
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
	const name = "LD_LIBRARY_PATH"
	list := slices.Clone(dirs)
	for _, e := range env {
		if old, ok := strings.CutPrefix(e, name+"="); ok && old != "" {
			list = append(list, old)
		}
	}
	return with(env, name, strings.Join(list, ":"))
}

// vendorVariables are those by which loaders find what they find in a namespace through /run/opengl-driver, each with
// the directory below ours and those that the variable takes the place of: programs may have other drivers too.
// Sources: Vulkan-Loader's LoaderInterfaceArchitecture.md, "Table of Debug Environment Variables"; libglvnd's
// EGL/icd_enumeration.md; libOpenCL(7) of ocl-icd, and Khronos' loader's README; libvdpau's src/vdpau_wrapper.c; Mesa's
// docs/envvars.rst and src/gbm/main/backend.c; the driver's README for EGL's external platforms.
var vendorVariables = []struct {
	name, dir string
	unless    []string // variables that the user chooses the same thing by
	others    []string
}{
	{"VK_ADD_DRIVER_FILES", "share/vulkan/icd.d", []string{"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}, nil},
	{"VK_ADD_IMPLICIT_LAYER_PATH", "share/vulkan/implicit_layer.d", []string{"VK_IMPLICIT_LAYER_PATH"}, nil},
	{"__EGL_VENDOR_LIBRARY_DIRS", "share/glvnd/egl_vendor.d", []string{"__EGL_VENDOR_LIBRARY_FILENAMES"},
		[]string{"share/glvnd/egl_vendor.d", "/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d"}},
	{"__EGL_EXTERNAL_PLATFORM_CONFIG_DIRS", "share/egl/egl_external_platform.d",
		[]string{"__EGL_EXTERNAL_PLATFORM_CONFIG_FILENAMES"}, nil},
	// OCL_ICD_FILENAMES only adds to it.
	{"OCL_ICD_VENDORS", "etc/OpenCL/vendors", []string{"OPENCL_VENDOR_PATH"}, nil},
	{"VDPAU_DRIVER_PATH", "vdpau", nil, nil},
	{"GBM_BACKENDS_PATH", "gbm", nil, []string{"lib/gbm", "/usr/lib/x86_64-linux-gnu/gbm",
		"/usr/lib/aarch64-linux-gnu/gbm", "/usr/lib64/gbm", "/usr/lib/gbm"}},
}

// withVendors returns an environment in which loaders find the driver's files for them, where the user has not said
// where to find any.
func (r *Run) withVendors(env []string, dir string) []string {
	for _, v := range vendorVariables {
		list := []string{filepath.Join(dir, v.dir)}
		if strings.HasSuffix(v.name, "_FILES") { // older loaders take no directories there
			list = manifests(list[0])
		} else if !isDir(list[0]) {
			continue
		}
		if len(list) == 0 || has(env, append(v.unless, v.name)...) {
			continue
		}
		for _, other := range v.others {
			if !filepath.IsAbs(other) {
				other = filepath.Join(r.Prefix, other)
			}
			list = append(list, other)
		}
		env = append(env, v.name+"="+strings.Join(list, ":"))
	}
	return env
}

// manifests returns the files in JSON of a directory.
func manifests(dir string) (files []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".json" {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}

// withVulkan returns an environment in which Vulkan's loader finds the driver once. It looks for files of drivers in
// many directories (LoaderDriverInterface.md, "Driver Discovery on Linux"): by the host's it would find the library
// that ours has loaded, and show each GPU twice. Where the host has one there, it is told all files but those.
func (r *Run) withVulkan(env []string, dir string) []string {
	const kind = "vulkan/icd.d"
	ours := manifests(filepath.Join(dir, "share", kind))
	if len(ours) == 0 || has(env, "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES") {
		return env
	}
	home := os.Getenv("HOME")
	dirs := append(filepath.SplitList(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), home+"/.config")+":"+
		cmp.Or(os.Getenv("XDG_CONFIG_DIRS"), "/etc/xdg")), "/etc", r.Prefix+"/share")
	dirs = append(dirs, filepath.SplitList(cmp.Or(os.Getenv("XDG_DATA_HOME"), home+"/.local/share")+":"+
		cmp.Or(os.Getenv("XDG_DATA_DIRS"), "/usr/local/share:/usr/share"))...)
	twice := false
	for _, dir := range dirs {
		entries, _ := os.ReadDir(filepath.Join(dir, kind))
		for _, e := range entries {
			at := filepath.Join(dir, kind, e.Name())
			if !filepath.IsAbs(dir) || filepath.Ext(at) != ".json" || strings.Contains(at, ":") {
				continue
			}
			var manifest struct {
				ICD struct {
					Library string `json:"library_path"`
				}
			}
			b, err := regular.Read(at, 64<<10)
			if err == nil && json.Unmarshal(b, &manifest) == nil && driver.Provides(filepath.Base(manifest.ICD.Library)) {
				twice = true
			} else if !slices.Contains(ours, at) {
				ours = append(ours, at)
			}
		}
	}
	if !twice {
		return env
	}
	return append(env, "VK_DRIVER_FILES="+strings.Join(ours, ":"))
}

// enterName is this program's argv[0] where it is to finish a namespace from inside.
const enterName = "hostDriver-namespace"

// place says which directory a path is to lead to.
type placement struct{ at, dir string }

func (r *Run) placements() ([]placement, error) {
	var all []placement
	for _, o := range r.Offers {
		m, err := host.MachineNamed(o.Machine)
		if err != nil {
			return nil, err
		}
		link := m.Link(r.Prefix)
		all = append(all, placement{link, o.Path})
		for _, name := range host.Beside {
			if dir := filepath.Join(o.Path, name); isDir(dir) {
				all = append(all, placement{filepath.Join(filepath.Dir(link), name), dir})
			}
		}
	}
	for _, dir := range r.Hide {
		all = append(all, placement{dir, r.Offers[0].Path})
	}
	return all, nil
}

// inNamespace starts the program in a mount namespace of its own. Where this
// process may make one, it goes into it and becomes the program. Else it needs a new
// user namespace, which only a process with a single thread can enter; a Go program
// is none, so a new process is made in it: this program again, which puts the
// directories in place and becomes the program. This process stays as its parent:
// signals and the exit status go through.
func (r *Run) inNamespace(file string, env []string) error {
	all, err := r.placements()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("a mount namespace in which %s is %s", all[0].at, all[0].dir)
	if mayMount() {
		// Of this thread alone; the others end when it becomes the program.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("making a mount namespace: %w", err)
		}
		if err := placeAll(all, r.Stage); err != nil {
			return err
		}
		r.Log("%s", what)
		keepIgnoring()
		return &StartError{file, execute(file, r.Program, env)}
	}
	if os.Geteuid() == 0 {
		// In a user namespace with this one ID, root could no longer be anybody else, nor own anything of theirs.
		return errors.New("root without CAP_SYS_ADMIN (a container?)")
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	said, says := os.NewFile(uintptr(pipe[0]), "pipe"), pipe[1]
	// Inherited under the number that it has, which is free here and so belongs to nobody.
	if _, err := unix.FcntlInt(uintptr(says), unix.F_SETFD, 0); err != nil {
		return err
	}
	args := []string{enterName, strconv.Itoa(says), r.Stage}
	for _, p := range all {
		args = append(args, p.at, p.dir)
	}
	args = append(append(append(args, "--"), file), r.Program...)
	uid, gid := os.Geteuid(), os.Getegid()
	attributes := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
		// The user keeps the user's IDs, so files and the GPU's devices are as before.
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
	}}
	signals := make(chan os.Signal, 64)
	for _, s := range forwarded() {
		if !isIgnored(s) {
			signal.Notify(signals, s)
		}
	}
	keepIgnoring()
	p := &inside{pid: make(chan int, 1), told: make(chan []byte, 1), changes: make(chan unix.WaitStatus, 1)}
	go p.run(args, attributes, said, says)
	program, arrived, text := <-p.pid, signals, []byte(nil)
	if program == 0 {
		arrived = nil // there is nobody to pass them on to
	}
	for waiting := true; waiting; {
		select {
		case s := <-arrived:
			passOn(program, s)
		case text = <-p.told:
			waiting = false
		}
	}
	if len(text) == 0 { // and the pipe is closed: the program has begun
		r.Log("%s", what)
		follow(program, signals, p.changes)
	}
	if program != 0 {
		<-p.changes // it ends
	}
	signal.Stop(signals)
	signal.Reset()
	if number, ok := strings.CutPrefix(string(text), "start: "); ok {
		errno, _ := strconv.Atoi(number)
		return &StartError{file, syscall.Errno(errno)}
	}
	return errors.New(string(text))
}

// inside is the process in the namespace, as its parent hears of it.
type inside struct {
	pid     chan int             // 0 where it could not be started
	told    chan []byte          // why it could not start the program; nothing: it has
	changes chan unix.WaitStatus // how it was stopped, and how it ended
}

// run starts the process and waits for it, on one thread: with the thread that started it, it would end too
// (Pdeathsig).
func (p *inside) run(args []string, attributes *syscall.ProcAttr, said *os.File, says int) {
	runtime.LockOSThread()
	// Not by os/exec, which first starts a process to find out what the kernel can do.
	pid, err := syscall.ForkExec("/proc/self/exe", args, attributes)
	_ = unix.Close(says)
	p.pid <- pid
	if err != nil {
		p.told <- fmt.Appendf(nil, "starting in a new namespace: %v", err)
		return
	}
	text, _ := io.ReadAll(io.LimitReader(said, 4096))
	said.Close()
	p.told <- text
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil && err != unix.EINTR {
			return // it has ended, and that was told
		} else if err == nil {
			p.changes <- status
		}
	}
}

// follow passes signals on to the program, stops where it is stopped, and ends as
// it ends.
func follow(program int, signals <-chan os.Signal, changes <-chan unix.WaitStatus) {
	for {
		select {
		case s := <-signals:
			passOn(program, s)
		case status := <-changes:
			if !status.Stopped() {
				endAs(status)
			}
			stopWith(program, signals)
		}
	}
}

// passOn sends the program a signal that this process was sent.
func passOn(program int, s os.Signal) {
	switch {
	case s == unix.SIGTTIN, s == unix.SIGTTOU:
		// The terminal sends them to the program too.
	case (s == unix.SIGINT || s == unix.SIGQUIT || s == unix.SIGTSTP) && atTerminal():
		// So do its keys.
	default:
		_ = unix.Kill(program, s.(syscall.Signal))
	}
}

// stopWith stops this process, whose own parent waits for it, because the program
// was stopped. The signal that continues this one is passed on like others.
func stopWith(program int, signals <-chan os.Signal) {
	// Whoever stopped both may have continued both already: what they sent to this one
	// is on its way through Go. A stop that comes late would stop the program again.
	time.Sleep(20 * time.Millisecond)
	continued := false
	for more := true; more; {
		select {
		case s := <-signals:
			if continued = continued || s == unix.SIGCONT; s != unix.SIGTSTP {
				passOn(program, s)
			}
		default:
			more = false
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", program))
	if err == nil {
		if i := bytes.LastIndexByte(b, ')'); i >= 0 && i+2 < len(b) && b[i+2] != 'T' {
			return // continued meanwhile
		}
	}
	if !continued {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	}
}

// forwarded are the signals that somebody may send to this process and mean the
// program: all that Go lets a program catch. It keeps 32 to 34 to itself, of which
// the last is glibc's SIGRTMIN.
func forwarded() []os.Signal {
	all := []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
		unix.SIGWINCH, unix.SIGIO,
		unix.SIGPWR, unix.SIGXCPU, unix.SIGVTALRM, unix.SIGTSTP, unix.SIGCONT, unix.SIGTTIN, unix.SIGTTOU,
	}
	for s := syscall.Signal(35); s <= 64; s++ {
		all = append(all, s)
	}
	return all
}

// ignored are the signals that whoever started this process lets it ignore, as nohup and shells' background jobs do. Go
// goes on to ignore SIGHUP and SIGINT, and leaves the other four as they were. What others it handles from its start on
// were, nobody knows any more, but shells that ignore SIGINT for a background job ignore SIGQUIT with it (POSIX,
// "Asynchronous Lists"). [Enter] asks first, before this process catches any.
var ignored = sync.OnceValue(func() (signals []os.Signal) {
	for _, s := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTSTP, unix.SIGCONT, unix.SIGTTIN, unix.SIGTTOU} {
		if action(s, nil) == 1 { // SIG_IGN
			signals = append(signals, s)
			if s == unix.SIGINT {
				signals = append(signals, unix.SIGQUIT)
			}
		}
	}
	return signals
})

// action returns the handler that a signal has, and sets another struct sigaction where it is not nil.
func action(s syscall.Signal, set *[64]byte) (handler uintptr) {
	var old [64 / unsafe.Sizeof(handler)]uintptr
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	return old[0]
}

func isIgnored(s os.Signal) bool { return slices.Contains(ignored(), s) }

// keepIgnoring lets the program ignore them too.
func keepIgnoring() {
	if signals := ignored(); len(signals) > 0 {
		signal.Ignore(signals...)
	}
}

// atTerminal reports whether this process is in a terminal's foreground, where
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
func endAs(ws unix.WaitStatus) {
	if ws.Signaled() {
		// One core file, the program's, is enough.
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		// Go keeps a handler of its own for SIGSEGV and others: take it out of the way.
		action(ws.Signal(), new([64]byte)) // SIG_DFL, no flags, an empty mask
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), ws.Signal())
		os.Exit(128 + int(ws.Signal()))
	}
	os.Exit(ws.ExitStatus())
}

// mayMount reports whether this process may mount without a user namespace.
func mayMount() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Enter does nothing unless this process is the one that [Run.Exec] started inside
// a namespace; then it never returns. It must be the first thing that main calls:
// it also notes which signals this process was started to ignore.
func Enter() {
	ignored()
	if len(os.Args) < 1 || os.Args[0] != enterName {
		return
	}
	all, args := []placement{}, os.Args[min(3, len(os.Args)):]
	for ; len(args) >= 2 && args[0] != "--"; args = args[2:] {
		all = append(all, placement{args[0], args[1]})
	}
	if len(args) < 3 || args[0] != "--" {
		os.Exit(125) // started by hand
	}
	fd, err := strconv.Atoi(os.Args[1])
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	}
	if err != nil {
		os.Exit(125) // as well
	}
	says := os.NewFile(uintptr(fd), "pipe")
	fail := func(format string, args ...any) {
		fmt.Fprintf(says, format, args...)
		os.Exit(125)
	}
	runtime.LockOSThread() // ambient capabilities belong to a thread
	// Lost on the way here where capabilities changed.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		fail("prctl: %v", err)
	}
	if err := placeAll(all, os.Args[2]); err != nil {
		fail("%v", err)
	}
	if err := dropCapabilities(); err != nil {
		fail("dropping capabilities: %v", err)
	}
	keepIgnoring()
	var errno syscall.Errno
	errors.As(execute(args[1], args[2:], os.Environ()), &errno)
	fail("start: %d", int(errno))
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

// placeAll puts directories in place in this mount namespace.
func placeAll(all []placement, stage string) error {
	// Mounts of the host still come in; ours do not go out.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for len(all) > 0 {
		n := 1 // those of one directory
		for n < len(all) && filepath.Dir(all[n].at) == filepath.Dir(all[0].at) {
			n++
		}
		if err := placeBeside(all[:n], stage); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// placeBeside lets paths in one directory lead to directories, in this mount namespace. The first is needed.
func placeBeside(all []placement, stage string) error {
	var missing []placement
	for _, p := range all {
		if !isDir(p.at) {
			missing = append(missing, p)
			continue
		}
		if err := unix.Mount(p.dir, p.at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", p.dir, p.at, err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if above, err := os.Lstat(filepath.Dir(all[0].at)); err == nil && !above.IsDir() && missing[0] != all[0] {
		return nil // what is there is another's, such as NixOS's link into its store
	}
	return placeMissing(missing, stage)
}

// placeMissing does so where the paths lead nowhere yet.
func placeMissing(all []placement, stage string) error {
	link := all[0].at
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
	if err := plainfile.MakeAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	but := []string{strings.Split(rest, "/")[0]}
	for _, p := range all {
		name := filepath.Base(p.at)
		if err := os.Symlink(p.dir, filepath.Join(filepath.Dir(at), name)); err != nil {
			return err
		}
		if rest == filepath.Base(link) {
			but = append(but, name)
		}
	}
	if err := showAll(parent, stage, but); err != nil {
		return err
	}
	// As little can be written in it as in the directory that it stands for.
	if err := unix.Mount("", stage, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		""); err != nil {
		return fmt.Errorf("making %s read-only: %w", parent, err)
	}
	if err := unix.Mount(stage, parent, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the new %s into place: %w", parent, err)
	}
	return nil
}

// showAll gives a new directory every entry of an old one but some: directories,
// sockets and files as mounts of the very same ones, so that what is written there is seen outside.
func showAll(old, fresh string, but []string) error {
	entries, err := os.ReadDir(old)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(but, e.Name()) {
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
			err = plainfile.Make(to, 0o755)
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
