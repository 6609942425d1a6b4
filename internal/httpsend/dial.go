package httpsend

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"example.com/whctl/internal/work"
)

const (
	receiveBuffer = 32 << 10 // bytes
	segment       = 1448     // bytes: what an Ethernet frame holds
)

// dial connects to an address that the guard has judged, after the name was resolved
// and right before the connection is made. Of a name with several addresses those that
// are refused are passed over; the others are tried. With a proxy every connection goes
// there: naming it in egress.proxy admits its address, unless it is denied.
func (s *Sender) dial(ex *exchange, hostPort string) (*socket, error) {
	d := net.Dialer{Resolver: s.resolver, ControlContext: s.control, Deadline: ex.deadline}
	c, err := d.DialContext(ex.parent, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	k, err := newSocket(c)
	if err != nil {
		c.Close()
	}
	return k, err
}

// control is called for each address, between the making of the socket and the connect:
// nothing has left yet, and an error keeps it so.
func (s *Sender) control(_ context.Context, _, address string, socket syscall.RawConn) error {
	if err := s.guard.dialled(address); err != nil {
		return err
	}
	if s.connects != nil {
		if err := s.connects(address); err != nil {
			return err
		}
	}
	return socket.Control(bound)
}

// dialled judges an address that is about to be connected to. Written addresses were
// judged before: this one came from a name, and what a name stands for changes.
func (g *guard) dialled(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusal{class: work.BlockedName, text: "the address could not be judged"}
	}
	judged := g.judge(ap.Addr(), ap.Port())
	if g.proxy != nil {
		judged = g.denied(ap.Addr().WithZone("").Unmap())
	}
	if judged == nil {
		return nil
	}
	return &refusal{class: work.BlockedName, text: judged.text}
}

// bound keeps small what an answer without end can push into the buffers of both
// kernels before it is noticed that the connection was closed. The sender's buffer
// grows with the segment, which is 64 KiB on the loopback: megabytes. A kernel that
// does not know an option is as good as one without it.
func bound(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer)
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, segment)
}
