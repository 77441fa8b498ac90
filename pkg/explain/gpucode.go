package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/remedy"
)

// Code returns the findings on a file's GPU code if code for some GPUs was asked for. They are about GPUs without
// code, GPUs for which the driver must compile it, and code that none of them can use. knows is the CUDA version of
// their driver; zero: not known.
func Code(f *gpucode.File, targets []gpucode.Target, knows gpucode.Version) (found []finding.Finding) {
	targets, amd := gpucode.SplitTargets(targets)
	missing, compiled := affected{of: "container"}, affected{of: "container"}
	unlinked, refused, notMachine := missing, missing, missing
	for _, t := range targets {
		j := f.Judge(t.Capability, knows)
		switch {
		case j.Error == gpucode.ErrUnsupportedPTXVersion:
			refused.add(t.Capability.String(), &j, gpucode.TooNew)
			continue
		case j.Error == gpucode.ErrNotFound:
			unlinked.add(t.Capability.String(), &j, gpucode.NoCode)
			continue
		case j.Error != 0:
			missing.add(t.Capability.String(), &j, gpucode.NoCode)
			continue
		case t.Machine && j.Containers[gpucode.Compiled] > 0:
			notMachine.add(t.Capability.String(), &j, gpucode.Compiled)
		case t.Real && j.Containers[gpucode.Compiled] > 0:
			compiled.add(t.Capability.String(), &j, gpucode.Compiled)
		}
		if j := f.JudgeLater(t); t.Virtual && j.Error != 0 {
			missing.add("GPUs after "+t.Capability.String(), &j, gpucode.NoCode)
		}
	}
	has, fix := strings.Join(MadeFor(f), ", "), buildForThese
	if thinned := f.ThinnedFor(); thinned != nil {
		has, fix = fmt.Sprintf("%s (it has been thinned for %s)", has, strings.Join(thinned, " and ")), thinForThese
	}
	of := finding.Finding{ID: finding.GPUCodeMissing, Answer: gpucode.ErrNoBinaryForGPU, Remedy: fix}
	found = missing.report(found, of, "has no code for %s: there is %s. On such a GPU the program stops with error %d, "+
		"no kernel image is available", has, of.Answer)
	of.Answer = gpucode.ErrNotFound
	found = unlinked.report(found, of, "has relocatable device code that is linked for none of %s, and cannot be linked "+
		"again there: there is %s. On such a GPU the program stops with error %d, named symbol not found", has, of.Answer)
	of.Answer = gpucode.ErrUnsupportedPTXVersion
	of.Remedy = remedy.Do("build it with machine code for these or with an older CUDA toolkit, or use a newer driver")
	found = refused.report(found, of, "has only PTX for %s, which is newer than a driver of CUDA %v knows: there the "+
		"program stops with error %d, the provided PTX was compiled with an unsupported toolchain", knows, of.Answer)
	of = finding.Finding{ID: finding.GPUCodeJIT, Severity: finding.Warning, Remedy: buildForThese}
	found = notMachine.report(found, of, "has only PTX for %s, and machine code is asked for: the driver compiles it "+
		"when the program first starts")
	of = finding.Finding{ID: finding.GPUCodeJIT, Remedy: quickStart}
	found = compiled.report(found, of, "has only PTX for %s: the driver compiles it when the program first starts")
	found = append(found, amdCode(f, amd)...)
	if unasked := f.Unasked(targets); targets != nil && len(unasked) > 0 {
		var all uint64
		for _, c := range unasked {
			all += c.Bytes
		}
		found = append(found, finding.Finding{ID: finding.GPUCodeUnasked, Bytes: all,
			Message: fmt.Sprintf("has %s of code that none of the GPUs asked for can use: %s", gpucode.Megabytes(all),
				strings.Join(names(unasked), ", ")),
			Remedy: remedy.Do("build it for the GPUs that are asked for alone, or use runpath thin, if it is to be smaller")})
	}
	damage := make([]error, 2) // the first of each kind
	for i := range f.Containers {
		damage[0] = cmp.Or(damage[0], f.Containers[i].Damage)
	}
	for i := range f.Bundles {
		damage[1] = cmp.Or(damage[1], f.Bundles[i].Damage)
	}
	for _, why := range damage {
		if why != nil {
			found = append(found, finding.Finding{ID: finding.Malformed, Message: "GPU code: " + why.Error(),
				Remedy: remedy.Do("restore the file")})
		}
	}
	for i := range found {
		found[i] = found[i].Strictly(false)
	}
	return found
}

var buildForThese = remedy.Do(
	"build it for these too (cudaCapabilities in nixpkgs, CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST), or take a " +
		"package that has them")

var thinForThese = remedy.Do("install it again, and thin it for these too, or not at all")

var quickStart = remedy.Do("build it with machine code for these, if the first start is to be quick")

// amdCode is what [Code] says of AMD's GPUs.
func amdCode(f *gpucode.File, targets []gpucode.Target) (found []finding.Finding) {
	missing, compiled := affected{of: "bundle"}, affected{of: "bundle"}
	for _, t := range targets {
		if j := f.JudgeAMD(t.AMD); j.Error != 0 {
			missing.add(string(t.AMD), &j, gpucode.NoCode)
		} else if j.Containers[gpucode.Compiled] > 0 {
			compiled.add(string(t.AMD), &j, gpucode.Compiled)
		}
	}
	var has []string
	for _, a := range f.AMDs() {
		has = append(has, string(a))
	}
	of := finding.Finding{ID: finding.GPUCodeMissing, Remedy: remedy.Do("build it for these too (AMDGPU_TARGETS, " +
		"gpuTargets in nixpkgs, PYTORCH_ROCM_ARCH), or take a package that has them")}
	found = missing.report(found, of, "has no code for %s: there is %s. On such a GPU the program stops with error %d, "+
		"hipErrorNoBinaryForGpu", strings.Join(has, ", "), gpucode.ErrNoBinaryForGPU)
	of = finding.Finding{ID: finding.GPUCodeJIT, Remedy: quickStart}
	return compiled.report(found, of, "has only SPIR-V for %s: the driver compiles it when the program first starts")
}

// gpuCode compares the GPU code of what is loaded with the GPUs that were asked for.
func (c *Case) gpuCode() {
	if len(c.GPUs) == 0 {
		return
	}
	for _, o := range c.Load.Objects {
		if !o.Found() || o.File == nil || driver.Provides(o.Name) {
			continue
		}
		code, err := SeenOf(o.File).Code, SeenOf(o.File).CodeErr
		switch {
		case err != nil && o == c.Load.Main:
			f := finding.Finding{ID: finding.UnreadableFile, Message: "its GPU code cannot be read: " + err.Error(),
				Remedy: remedy.Do("run the audit again where the file can be read")}
			if errors.As(err, new(*elfimage.FormatError)) {
				f.ID, f.Remedy = finding.Malformed, remedy.Do("restore the file")
			}
			c.report(f)
		case err != nil, code == nil: // the loader's complaint says why; the driver's own
		default:
			for _, f := range Code(code, c.GPUs, gpucode.Version{}) {
				if f.By = o.Path; o != c.Load.Main {
					if f.ID != finding.GPUCodeMissing && f.ID != finding.GPUCodeJIT {
						continue
					}
					f.Library, f.File, f.Message = o.Name, o.Path, o.Path+" "+f.Message
				}
				c.report(f)
			}
		}
	}
}

// GPUCodes are the conclusions that are about GPU code.
func GPUCodes(found []finding.Finding) []GPUCode {
	all := []GPUCode{}
	for _, f := range found {
		if f.By != "" && (f.ID == finding.GPUCodeMissing || f.ID == finding.GPUCodeJIT) {
			all = append(all, GPUCode{f.By, f.ID, strings.TrimPrefix(f.Message, f.By+" ")})
		}
	}
	return all
}

// affected are GPUs by how many of a file's containers, or bundles, are concerned.
type affected struct {
	of     string // what is counted
	shares []share
}

type share struct {
	gpus     []string
	n, total int
}

func (a *affected) add(gpu string, j *gpucode.Judgement, taken gpucode.Outcome) {
	n, total := j.Containers[taken], j.Total()
	for i := range a.shares {
		if s := &a.shares[i]; s.n == n && s.total == total {
			s.gpus = append(s.gpus, gpu)
			return
		}
	}
	a.shares = append(a.shares, share{[]string{gpu}, n, total})
}

// report adds a finding for each share, whose words begin with it: "9.0 and 10.0 in 3 of 7 containers".
func (a *affected) report(found []finding.Finding, f finding.Finding, format string, args ...any) []finding.Finding {
	for _, s := range a.shares {
		in := remedy.List(s.gpus) + " in "
		if s.n != s.total {
			in += fmt.Sprintf("%d of ", s.n)
		}
		f.GPUs, f.Message = s.gpus, fmt.Sprintf(format, append([]any{in + remedy.Count(s.total, a.of)}, args...)...)
		found = append(found, f)
	}
	return found
}

// MadeFor lists the architectures of the containers that are loaded, or of relocatable code if there is nothing else.
func MadeFor(f *gpucode.File) []string {
	for _, relocatable := range []bool{false, true} {
		var sum gpucode.Sum
		for i := range f.Containers {
			if c := &f.Containers[i]; c.Relocatable == relocatable && c.HasKernels() {
				sum.Add(c)
			}
		}
		if len(sum) > 0 {
			return names(sum)
		}
	}
	return nil
}

// names lists the architectures of a sum, each once.
func names(sum gpucode.Sum) []string {
	var out []string
	for i := range sum {
		if name := sum[i].Name(); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
