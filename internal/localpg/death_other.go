//go:build unix && !linux

package localpg

import "syscall"

// dieWithStarter does nothing: only Linux can tie a child's life to its parent's.
func dieWithStarter(*syscall.SysProcAttr) {}
