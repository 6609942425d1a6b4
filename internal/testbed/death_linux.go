package testbed

import "syscall"

// dieWithTest has the kernel end the process when the thread that started it is gone:
// a test binary that runs out of time leaves nothing behind.
func dieWithTest(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
