package forwardcompat

import "fmt"

// Error is an error of CUDA that the host and the program's files decide, before the program runs.
type Error struct {
	Code int
	Name string // in cuda.h; where only the runtime has it, in driver_types.h
	Text string // what cudaGetErrorString says
	// Means says what is wrong, in a word or two.
	Means string
}

// Errors lists them by number. Source: cuda.h and driver_types.h of CUDA 13.0.
var Errors = [...]Error{
	{34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library", "a libcuda.so.1 that is for linking was loaded"},
	{35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version",
		"no driver was found, or one that is older than the program"},
	{100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected", "the kernel shows the process no GPU"},
	{209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device",
		"the code is for other GPUs"},
	{221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found",
		"the driver does not find libnvidia-ptxjitcompiler.so.1"},
	{222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain",
		"there is only PTX, and it is newer than the driver"},
	{223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "PTX JIT compilation was disabled", "CUDA_DISABLE_PTX_JIT is set"},
	{500, "CUDA_ERROR_NOT_FOUND", "named symbol not found", "relocatable device code was linked for other GPUs"},
	{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination",
		"libcuda.so.1 and the kernel module are not of one version"},
	{804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW",
		"a compat package, on a GPU that is not for data centres"},
	{999, "CUDA_ERROR_UNKNOWN", "unknown error", "the kernel's module nvidia_uvm is not there, or has lost its state"},
}

// ErrorNamed returns what an error's number stands for: 209 (CUDA_ERROR_NO_BINARY_FOR_GPU), no kernel image …
func ErrorNamed(code int) string {
	for _, e := range Errors {
		if e.Code == code {
			return fmt.Sprintf("%d (%s), %s: %s", e.Code, e.Name, e.Text, e.Means)
		}
	}
	return fmt.Sprint(code)
}
