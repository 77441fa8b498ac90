package gpu

import (
	"fmt"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/remedy"
)

// For names the GPUs that code is to be for.
var For = &command.Flag{Kind: command.String, Name: "for", Check: Check,
	Usage: "report what GPU code is missing, not needed, or compiled at the first start, for the GPUs of `LIST`: " +
		"9.0,8.6+PTX, sm_90a, 90-real;86-virtual, names such as H100, or native for those of this machine; 9.0+PTX " +
		"also asks for PTX, from which drivers make code for GPUs after 9.0"}

// Check says what is wrong with a list of GPUs.
func Check(list string) error { _, _, err := gpucode.ParseList(list); return err }

// Targets returns the GPUs that --for names, of which the command line was checked; nil where it is not given. One
// whose number is not known, as where a CUDA set is newer than this program, is a warning, or the error that refuse
// makes of it.
func Targets(s *session.Session, c *command.Line, refuse func(gpucode.Target) error) ([]gpucode.Target, error) {
	if !c.IsSet(For.Name) {
		return nil, nil
	}
	targets, native, _ := gpucode.ParseList(c.String(For.Name))
	for _, t := range targets {
		if t.Known() {
			continue
		}
		if err := refuse(t); err != nil {
			return nil, err
		}
		s.Log.Warnf("--for %s: no GPU with this number is known here; the general rule is applied to it. %s",
			t.Arch, Meant(t))
	}
	if native {
		own, err := host.Native()
		if err != nil {
			return nil, fmt.Errorf("--for %s: %w", gpucode.ThisMachine, err)
		}
		for _, t := range own {
			s.Log.Infof("--for %s: %s", gpucode.ThisMachine, t)
		}
		targets = gpucode.Merged(targets, own)
	}
	return targets, nil
}

// General refuses no GPU: the general rule is applied to one that is not known.
func General(gpucode.Target) error { return nil }

// Meant asks for which GPUs the number of one that is not known may stand.
func Meant(t gpucode.Target) string {
	var words []string
	for _, c := range t.Near() {
		words = append(words, c.String())
	}
	return fmt.Sprintf("Did you mean %s?", strings.ReplaceAll(remedy.List(words), " and ", " or "))
}
