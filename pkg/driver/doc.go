// Package driver knows what belongs to the host's GPU driver and what to the CUDA
// toolkit: which libraries ship with which, where the driver's directory is linked
// for a machine, and which directories hold link-time stubs.
package driver
