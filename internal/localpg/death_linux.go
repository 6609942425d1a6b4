package localpg

import "syscall"

// dieWithStarter has the kernel send SIGQUIT, Postgres' immediate shutdown, when the
// thread that started the process is gone.
func dieWithStarter(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
