package httpsend

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"
)

// trail is how far a request came, as net and the exchange tell it: from several
// goroutines, and net also after the request was given up.
type trail struct {
	begun  time.Time // before the first hook, as is judged
	judged time.Time // the URL

	mu         sync.Mutex
	handedOver time.Time // made ready, to be sent
	dnsBegun   time.Time
	addresses  []string
	dials      []dialing
	handshakes []handshake // with a proxy that speaks TLS, its own first
	connected  time.Time   // there is a connection for the request
	reused     bool        // it had been open before
	written    time.Time   // the whole request
	writeErr   error
}

// dialing is one address that a connection was wanted to; while that goes on, its end is
// zero.
type dialing struct {
	address    string
	begun, end time.Time
	err        error
}

type handshake struct {
	begun, end time.Time
	state      tls.ConnectionState
	err        error
}

// hooks are the listeners for what net does.
func (tr *trail) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { tr.note(func(now time.Time) { tr.dnsBegun = now }) },
		DNSDone: func(info httptrace.DNSDoneInfo) {
			tr.note(func(time.Time) {
				for _, a := range info.Addrs {
					tr.addresses = append(tr.addresses, a.String())
				}
			})
		},
		ConnectStart: func(_, address string) {
			tr.note(func(now time.Time) { tr.dials = append(tr.dials, dialing{address: address, begun: now}) })
		},
		ConnectDone: func(_, address string, err error) {
			tr.note(func(now time.Time) { tr.dialEnded(address, now, err) })
		},
	}
}

// note is nothing on a trail that is nil: nobody listens then.
func (tr *trail) note(f func(now time.Time)) {
	if tr == nil {
		return
	}
	now := time.Now()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	f(now)
}

func (tr *trail) handOver() { tr.note(func(now time.Time) { tr.handedOver = now }) }

func (tr *trail) helloBegun() {
	tr.note(func(now time.Time) { tr.handshakes = append(tr.handshakes, handshake{begun: now}) })
}

func (tr *trail) helloEnded(state tls.ConnectionState, err error) {
	tr.note(func(now time.Time) {
		h := &tr.handshakes[len(tr.handshakes)-1]
		h.end, h.state, h.err = now, state, err
	})
}

func (tr *trail) gotConn(reused bool) {
	tr.note(func(now time.Time) { tr.connected, tr.reused = now, reused })
}

func (tr *trail) wrote(err error) {
	tr.note(func(now time.Time) { tr.written, tr.writeErr = now, err })
}

func (tr *trail) dialEnded(address string, now time.Time, err error) {
	for i := range tr.dials {
		if d := &tr.dials[i]; d.address == address && d.end.IsZero() {
			d.end, d.err = now, err
			return
		}
	}
}

// copied is a trail as it stands, which nobody changes any more.
func (tr *trail) copied() *trail {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return &trail{
		begun: tr.begun, judged: tr.judged, handedOver: tr.handedOver, dnsBegun: tr.dnsBegun, addresses: slices.Clone(tr.addresses),
		dials: slices.Clone(tr.dials), handshakes: slices.Clone(tr.handshakes),
		connected: tr.connected, reused: tr.reused, written: tr.written, writeErr: tr.writeErr,
	}
}

// refused says that the guard kept the address from being dialled.
func (d dialing) refused() bool {
	var r *refusal
	return errors.As(d.err, &r)
}

// through is the address that a connection was made to, "" for none.
func (tr *trail) through() string {
	for _, d := range tr.dials {
		if !d.end.IsZero() && d.err == nil {
			return d.address
		}
	}
	return ""
}

// addressesJudged are those that the guard let pass, and those that it did not, without
// ports.
func (tr *trail) addressesJudged() (admitted, refused []string) {
	for _, d := range tr.dials {
		host, _, err := net.SplitHostPort(d.address)
		if err != nil {
			host = d.address
		}
		if d.refused() {
			refused = append(refused, host)
		} else {
			admitted = append(admitted, host)
		}
	}
	return admitted, refused
}

// handshake is the one with the receiver, the zero value where there is none yet. before
// is how many others come first.
func (tr *trail) handshake(before int) handshake {
	if len(tr.handshakes) <= before {
		return handshake{}
	}
	return tr.handshakes[before]
}
