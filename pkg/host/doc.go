// Package host finds the GPU driver of a Linux host: its libraries, of which version, from where, what they need of the
// host; the GPUs; what a compat package does there. Callers make a [Host] of a root, ask [MachineOf] for whose programs
// the driver is to be, and [Host.Find] it; who only asks about compat packages has [CompatJudge]. What is done with the
// driver is in the packages below: it is offered in a directory (host/offer), for the system (host/install) or one user
// (host/private), and diagnosed (host/doctor).
//
// Everything is read below a root, so another system's tree can be looked at, and nothing found is run or loaded.
package host
