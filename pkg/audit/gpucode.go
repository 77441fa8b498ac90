package audit

import (
	"errors"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/remedy"
)

// gpuCode compares the file's GPU code with the GPUs that were asked for.
func (s *subject) gpuCode() {
	if len(s.GPUs) == 0 {
		return
	}
	seen := explain.SeenOf(s.file)
	code, err := seen.Code, seen.CodeErr
	if code == nil && err == nil { // the driver's own
		return
	}
	if err == nil {
		for _, p := range explain.Code(code, s.GPUs, gpucode.Version{}) {
			s.report(Concluded(p))
		}
		return
	}
	f := Finding{ID: UnreadableFile, Message: "its GPU code cannot be read: " + err.Error(), Remedy: remedy.Do("run the audit again where the file can be read")}
	if errors.As(err, new(*elfimage.FormatError)) {
		f.ID, f.Remedy = explain.Malformed, remedy.Do("restore the file")
	}
	s.report(f)
}
