package httpsend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"example.com/whctl/internal/work"
)

// failure makes an outcome of a request without an answer. Its message is made of
// fixed texts and the host: in errors anything may stand.
func (ex *exchange) failure(err error, t *target) work.Outcome {
	if cause := context.Cause(ex.parent); cause != nil {
		return ex.ended(cause)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(ex.deadline) {
		return ex.timedOut()
	}
	if ex.conn == nil {
		return ex.unconnected(err, t)
	}
	if text, ok := alert(err); ok {
		return work.Outcome{Class: work.TLS, Message: "protocol: " + text}
	}
	if brokenOff(err) {
		return work.Outcome{Class: work.Reset, Message: t.host + " closed the connection without an answer"}
	}
	if errors.Is(err, errLongHead) {
		return work.Outcome{Class: work.Protocol, Message: fmt.Sprintf("the answer's head is longer than %d KiB", maxHead>>10)}
	}
	return work.Outcome{Class: work.Protocol, Message: "the answer of " + t.host + " is no HTTP"}
}

// ended is for a request that was given up on this side.
func (ex *exchange) ended(cause error) work.Outcome {
	if errors.Is(cause, context.DeadlineExceeded) {
		return ex.timedOut()
	}
	if ex.wrote() {
		return work.Outcome{Class: work.Lost, Message: "a stop broke the request off: its effect is unknown"}
	}
	return work.Outcome{Class: work.Lost, Unsent: true, Message: "a stop came before the request was sent"}
}

func (ex *exchange) timedOut() work.Outcome {
	what := "answer"
	if ex.conn == nil {
		what = "connection"
	}
	return work.Outcome{Class: work.Timeout, Message: fmt.Sprintf("no %s within %s", what, ex.limit.Round(time.Millisecond))}
}

// unconnected is for a request that found no connection: nothing of it was sent.
func (ex *exchange) unconnected(err error, t *target) work.Outcome {
	whose := t.host
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "proxyconnect" {
		whose = "the proxy"
	}
	var refused *refusal
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &refused):
		return work.Outcome{Class: refused.class, Message: whose + ": " + refused.text}
	case errors.As(err, &dns) && dns.IsNotFound:
		return work.Outcome{Class: work.DNS, Message: whose + ": no such host"}
	case dns != nil:
		return work.Outcome{Class: work.DNS, Message: whose + ": the name could not be resolved"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return ex.timedOut()
	}
	if text, ok := tlsFault(err, whose); ok {
		return work.Outcome{Class: work.TLS, Message: text}
	}
	if dialling(err) {
		return work.Outcome{Class: work.Connect, Message: whose + ": " + reasonOf(err)}
	}
	if ex.proxied {
		return work.Outcome{Class: work.Connect, Message: whose + ": no connection through the proxy"}
	}
	if t.url.Scheme == "https" {
		return work.Outcome{Class: work.TLS, Message: "protocol: the handshake with " + whose + " broke off"}
	}
	return work.Outcome{Class: work.Connect, Message: whose + ": no connection"}
}

func dialling(err error) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if op, ok := e.(*net.OpError); ok && (op.Op == "dial" || op.Op == "proxyconnect") { //nolint:errorlint // each link of the chain is looked at
			return true
		}
	}
	return errors.Is(err, errProxy)
}

func reasonOf(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	if errors.Is(err, errProxy) {
		return errProxy.Error()
	}
	return "no connection"
}

var errProxy = errors.New("the proxy refuses to connect")

// tlsFault names the kind of fault: expired, wrong host, unknown authority, protocol.
func tlsFault(err error, host string) (string, bool) {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var roots x509.SystemRootsError
	var record tls.RecordHeaderError
	var other *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "expired: the certificate of " + host + " is out of its time", true
	case errors.As(err, &name):
		return "wrong host: the certificate is not for " + host, true
	case errors.As(err, &authority):
		return "unknown authority: nobody whom egress.ca_file or the system trusts has signed for " + host, true
	case errors.As(err, &roots):
		return "unknown authority: the system has no roots", true
	case errors.As(err, &invalid), errors.As(err, &other):
		return "certificate: the one of " + host + " cannot be used", true
	case errors.As(err, &record):
		return "protocol: " + host + " does not speak TLS", true
	}
	if text, ok := alert(err); ok {
		return "protocol: " + text, true
	}
	return "", false
}

// alert is the text of a TLS alert, one of a fixed list.
func alert(err error) (string, bool) {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") {
		return strings.TrimPrefix(op.Err.Error(), "tls: "), true
	}
	return "", false
}

// brokenOff says that the connection ended, as against an answer that makes no sense.
func brokenOff(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op)
}
