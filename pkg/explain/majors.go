package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
)

// cudaMajor returns the major version of CUDA that a library of the toolkit belongs to, by its soname; "" if that
// does not tell. Libraries on top of the toolkit (cuDNN, NCCL) have versions of their own, and so have some
// mathematical ones.
func cudaMajor(soname string) string {
	stem, version, _ := strings.Cut(soname, ".so.")
	if !slices.Contains([]string{"libcudart", "libnvrtc", "libnvJitLink", "libcublas", "libcublasLt",
		"libnvfatbin"}, stem) {
		return ""
	}
	major, _, _ := strings.Cut(version, ".")
	return major
}

// cudnnMajor is cudaMajor for cuDNN. Each major version defines the functions of the others.
func cudnnMajor(soname string) string {
	version, _ := strings.CutPrefix(soname, "libcudnn.so.")
	if version == soname {
		return ""
	}
	major, _, _ := strings.Cut(version, ".")
	return major
}

// CUDAMajors returns the major versions of CUDA whose toolkit is in the process, in order.
func (c *Case) CUDAMajors() []string {
	_, majors := c.loaded(cudaMajor)
	return majors
}

// loaded returns the major versions, counted by a function, of libraries in the process, in order, and the first
// library of each.
func (c *Case) loaded(major func(soname string) string) (first map[string]*loader.Object, majors []string) {
	first = map[string]*loader.Object{}
	for _, o := range c.Objects {
		if o.File == nil || !o.Found() {
			continue
		}
		m := major(path.Base(o.Name))
		if m == "" {
			m = major(o.File.Soname)
		}
		if m != "" && first[m] == nil {
			first[m], majors = o, append(majors, m)
		}
	}
	slices.Sort(majors)
	return first, majors
}

// majors reports two major versions, counted by a function, in one process.
func (c *Case) majors(of string, major func(soname string) string, fix remedy.Remedy) {
	first, majors := c.loaded(major)
	if len(majors) < 2 {
		return
	}
	var have []string
	for _, m := range majors {
		o := first[m]
		by := ""
		if o.NeededBy != nil {
			by = " for " + o.NeededBy.Path
		}
		have = append(have, fmt.Sprintf("%s, of %s %s%s", o.Path, of, m, by))
	}
	f := on(finding.TwoMajors, first[majors[0]], first[majors[0]].NeededBy, fix,
		"one process loads two major versions of %s: %s; a function that both define is called in the one loaded first",
		of, strings.Join(have, "; "))
	f.Library = path.Base(f.Library)
	c.report(f)
}

// toolkit reports two major versions of the toolkit in one process. It also reports libraries that one of the
// toolkit's opens by name and does not find.
func (c *Case) toolkit() {
	c.majors("CUDA", cudaMajor, remedy.Do(
		"build all of it against one CUDA: packages of one cudaPackages, wheels of one -cuNN"))
	c.majors("cuDNN", cudnnMajor, remedy.Do("build all of it against one cuDNN"))
	c.compiler()
	for _, p := range c.Failed {
		name := path.Base(p.Name)
		if p.To.Found() || !driver.Toolkit(name) || p.By.File == nil || c.byAnother(p) {
			continue
		}
		f := on(finding.OpenedAbsent, p.To, p.By, c.notFound(p.To).Remedy, "%s, which %s opens by name, is not found", p.Name,
			c.who(p.By))
		f.Severity = finding.Note
		whole := func(o *loader.Object) bool {
			return o.Found() && (driver.PartOf(name, path.Base(o.Name)) || o.File != nil && driver.PartOf(name, o.File.Soname))
		}
		if whole(p.By) {
			f.Severity = finding.Warning // because cuDNN takes other engines
			f.Message += ": it is a part of the same package; what needs it fails, or takes another version from elsewhere"
			if slices.ContainsFunc(c.WithFailed(), func(o *loader.Object) bool {
				return o.File != nil && whole(o) && slices.Contains(o.File.Needed, p.Name)
			}) {
				f.Severity = finding.Error
			}
		} else if i := slices.IndexFunc(c.Objects, whole); i >= 0 {
			f.Severity = finding.Warning
			f.Message += fmt.Sprintf(": it is a part of the package of %s; what needs it fails, or takes another version from "+
				"elsewhere", c.Objects[i].Path)
		}
		c.report(f)
	}
}

// compiler reports a compat package's libcuda.so.1 that does not find the PTX compiler beside it, because it opens
// that by its bare name.
func (c *Case) compiler() {
	const name = ptxCompiler
	for _, o := range c.Objects {
		if path.Base(o.Name) != driver.LibCUDA || !o.Found() || o.File == nil || o.Err != "" ||
			!slices.ContainsFunc(o.File.Literals(), func(l files.Literal) bool { return l.Name == name && l.Path == "" }) {
			continue
		}
		dir := path.Dir(c.Inside(o.File.Path))
		if !c.isCompat(c.Load, dir, dir) || !c.Holds(dir, name) || c.Alone(name, o, loader.DlopenString) != nil {
			continue
		}
		f := on(finding.OpenedAbsent, nil, o, c.Edit(o, add("$ORIGIN")), "%s, which %s opens by name, is not found, "+
			"though it lies beside it: code that is compiled at run time fails (%d)", name, o.Path, noCompiler)
		f.Severity, f.Library = finding.Warning, name
		c.report(f)
	}
}

const ptxCompiler = "libnvidia-ptxjitcompiler.so.1"

// noCompiler is CUDA_ERROR_JIT_COMPILER_NOT_FOUND.
const noCompiler = 221

// byAnother reports whether the opener of a library gets it by another name, with a version or without. Such names
// are tried in turn.
func (c *Case) byAnother(p *loader.Opening) bool {
	stem, _, _ := strings.Cut(path.Base(p.Name), ".so")
	return slices.ContainsFunc(c.Asks(p.By), func(u loader.Use) bool {
		other, _, _ := strings.Cut(path.Base(u.Name), ".so")
		return other == stem && u.To.Found()
	})
}
