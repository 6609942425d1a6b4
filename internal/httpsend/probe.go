package httpsend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"example.com/whctl/internal/work"
)

// The stages of a request, in their order.
const (
	StageURL     = "url"     // it can be used, and the guard admits what is written in it
	StageHeaders = "headers" // they and the signature can be sent
	StageDNS     = "dns"     // the name has addresses
	StageGuard   = "guard"   // it admits one of them
	StageConnect = "connect" // through the proxy, where there is one
	StageTLS     = "tls"
	StageRequest = "request" // all of it is written
	StageStatus  = "status"  // the answer is 2xx
)

// Stage is one step of a request on its way.
type Stage struct {
	Name    string
	OK      bool
	Message string // one clean line: what was found, or why it goes no further
	Took    time.Duration
}

// Probe is Send, and tells of each stage up to the first that failed. It sends what Send
// sends, in the same way: it only listens in.
func (s *Sender) Probe(ctx context.Context, r Request) (work.Outcome, []Stage) {
	heard := &trail{begun: time.Now()}
	v := s.targetOf(r.URL)
	heard.judged = time.Now()
	o := s.send(httptrace.WithClientTrace(ctx, heard.hooks()), r, heard)
	p := &probe{trail: heard.copied(), outcome: o, proxied: s.guard.proxy != nil}
	p.at, p.ended = p.begun, p.judged.Add(o.Latency)
	if v.refusal != nil {
		p.fail(StageURL)
		return o, p.stages
	}
	if p.proxied && s.guard.proxy.Scheme == "https" {
		p.proxyHandshakes = 1
	}
	p.tell(v.target, r)
	return o, p.stages
}

// probe makes stages of what was heard of a request that has ended.
type probe struct {
	*trail
	outcome         work.Outcome
	ended           time.Time // by the answer's status line, or the failure
	proxied         bool
	proxyHandshakes int // come before the receiver's
	stages          []Stage
	at              time.Time // where the last stage ended
}

// tell goes as far as the request did.
func (p *probe) tell(t *target, r Request) {
	p.pass(StageURL, p.judged, "%s to %s, which is admitted as it is written", t.url.Scheme, t.url.Host)
	if p.handedOver.IsZero() && p.outcome.Class == work.Invalid {
		p.fail(StageHeaders)
		return
	}
	p.pass(StageHeaders, p.handedOver, "%s", headersText(r))
	if !p.connection(t) {
		return
	}
	if p.outcome.Status == 0 && (p.written.IsZero() || p.writeErr != nil) {
		p.fail(StageRequest)
		return
	}
	p.pass(StageRequest, p.written, "POST of %d bytes", len(r.Body))
	if p.outcome.Class != work.OK {
		p.fail(StageStatus)
		return
	}
	p.pass(StageStatus, p.ended, "%d %s", p.outcome.Status, http.StatusText(p.outcome.Status))
}

// connection tells how the request came to its connection, and whether it did.
func (p *probe) connection(t *target) bool {
	if p.reused {
		p.pass(StageConnect, p.connected, "an open connection is used again")
		return true
	}
	if !p.resolved() {
		return false
	}
	secured := t.url.Scheme == "https"
	hello, there := p.handshake(p.proxyHandshakes), p.connected
	if secured {
		there = hello.begun
	}
	if there.IsZero() {
		p.fail(StageConnect)
		return false
	}
	to := p.through()
	if p.proxied {
		to = t.url.Host + ", through the proxy at " + to
	}
	p.pass(StageConnect, there, "%s", to)
	switch {
	case !secured:
		p.pass(StageTLS, p.connected, "none: http is not encrypted")
	case p.connected.IsZero():
		p.fail(StageTLS)
		p.addToLast(outOfTime(hello.err))
		return false
	default:
		p.pass(StageTLS, hello.end, "%s", tlsText(hello.state))
	}
	return true
}

// resolved tells of names and addresses, and whether there is one to connect to. With a
// proxy they are the proxy's.
func (p *probe) resolved() bool {
	whose := ""
	if p.proxied {
		whose = "of the proxy: "
	}
	if len(p.dials) == 0 {
		if p.dnsBegun.IsZero() {
			p.fail(StageConnect) // it was over before it began
		} else {
			p.fail(StageDNS)
		}
		return false
	}
	found := "nothing to resolve"
	if !p.dnsBegun.IsZero() {
		found = listed(p.addresses)
	}
	p.pass(StageDNS, p.dials[0].begun, "%s%s", whose, found)
	admitted, refused := p.addressesJudged()
	if len(admitted) == 0 || p.outcome.Class == work.BlockedName {
		p.fail(StageGuard)
		return false
	}
	text := listed(admitted) + " admitted"
	if len(refused) > 0 {
		text += ", " + listed(refused) + " refused"
	}
	p.pass(StageGuard, p.dials[0].begun, "%s%s", whose, text)
	return true
}

// pass adds a stage that went well and ended then. When it is not known when, it is told
// as no time at all.
func (p *probe) pass(name string, ended time.Time, format string, args ...any) {
	p.add(Stage{Name: name, OK: true, Message: fmt.Sprintf(format, args...)}, ended)
}

// fail adds the last stage.
func (p *probe) fail(name string) {
	p.add(Stage{Name: name, Message: p.outcome.Message}, p.ended)
}

func (p *probe) add(s Stage, ended time.Time) {
	if ended.After(p.at) {
		s.Took, p.at = ended.Sub(p.at), ended
	}
	s.Message = clean(s.Message, maxMessage, false)
	p.stages = append(p.stages, s)
}

func (p *probe) addToLast(note string) {
	if last := &p.stages[len(p.stages)-1]; note != "" {
		last.Message = clean(last.Message+", "+note, maxMessage, false)
	}
}

func headersText(r Request) string {
	own := "none of the destination's own"
	if n := len(r.Headers); n > 0 {
		own = fmt.Sprintf("%d of the destination's own", n)
	}
	switch {
	case len(r.Keys) == 0:
		return own + ", not signed"
	case r.Signature.Plain():
		return own + ", signed in " + strings.Join(r.Signature.Headers(), " and ")
	}
	return own + fmt.Sprintf(", signatures: %d", len(r.Keys))
}

func tlsText(state tls.ConnectionState) string {
	text := tls.VersionName(state.Version)
	if len(state.PeerCertificates) > 0 {
		text += ", the certificate ends on " + day(state.PeerCertificates[0].NotAfter)
	}
	return text
}

// outOfTime is the time of a certificate that was refused for it.
func outOfTime(err error) string {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return ""
	}
	return "from " + day(invalid.Cert.NotBefore) + " to " + day(invalid.Cert.NotAfter)
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// listed is a list for a line: a name may have hundreds of addresses.
func listed(addresses []string) string {
	const most = 8
	if len(addresses) <= most {
		return strings.Join(addresses, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(addresses[:most], ", "), len(addresses)-most)
}
