//go:build unix && !linux

package testbed

import "syscall"

// dieWithTest does nothing: only Linux can tie a child's life to its parent's.
func dieWithTest(*syscall.SysProcAttr) {}
