package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"example.com/whctl/internal/httpsend"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// testedJSON is the contract of a destination's test. Class and status are null where
// nothing was sent that could have one; message is null when all is well.
type testedJSON struct {
	Destination string      `json:"destination"`
	URL         string      `json:"url"`
	OK          bool        `json:"ok"`
	Class       *work.Class `json:"class"`
	Status      *int        `json:"status"`
	Message     *string     `json:"message"`
	Seconds     float64     `json:"seconds"`
	Stages      []stageJSON `json:"stages"`
}

type stageJSON struct {
	Stage   string  `json:"stage"`
	OK      bool    `json:"ok"`
	Message string  `json:"message"`
	Seconds float64 `json:"seconds"`
}

func testedDocument(t tested) testedJSON {
	doc := testedJSON{
		Destination: t.destination.Name, URL: shownURL(t.destination.URL, false), OK: t.ok(),
		Class: orNull(t.outcome.Class), Status: orNull(t.outcome.Status), Stages: []stageJSON{},
	}
	if !t.ok() {
		doc.Message = orNull(t.last().Message)
	}
	var all time.Duration
	for _, s := range t.stages {
		all += s.Took
		doc.Stages = append(doc.Stages, stageJSON{Stage: s.Name, OK: s.OK, Message: t.advised(s), Seconds: render.Seconds(s.Took)})
	}
	doc.Seconds = render.Seconds(all)
	return doc
}

// writeTested shows one document to programs, and a row for each stage to people.
func writeTested(w io.Writer, o render.Options, t tested) error {
	if o.JQ != "" || o.Format == render.JSON || o.Format == render.JSONL || o.Format == render.Name {
		return render.One(w, o, render.View[tested]{
			JSON: func(t tested) any { return testedDocument(t) },
			Name: func(t tested) string { return t.destination.Name },
		}, t)
	}
	o.Width = 0 // what to do stands at the end of a line
	return stageView(t).Write(w, o, t.stages)
}

func stageView(t tested) render.View[httpsend.Stage] {
	return render.View[httpsend.Stage]{Columns: []render.Column[httpsend.Stage]{
		{Header: "STAGE", Value: func(s httpsend.Stage) string { return s.Name }},
		{Header: "RESULT", Value: func(s httpsend.Stage) string {
			if s.OK {
				return "ok"
			}
			return "failed"
		}},
		{Header: "TIME", Right: true, Value: func(s httpsend.Stage) string { return s.Took.Round(100 * time.Microsecond).String() }},
		{Header: "MESSAGE", Value: t.advised},
	}}
}

// advised is the message of a stage; where it failed, with what to do in brackets.
func (t tested) advised(s httpsend.Stage) string {
	if s.OK {
		return s.Message
	}
	return fmt.Sprintf("%s (%s)", s.Message, t.advice(s))
}

// advice says what to do about the stage that failed. The guard's own texts name the
// setting already.
func (t tested) advice(s httpsend.Stage) string {
	d := t.destination
	switch {
	case t.missing != nil:
		return missingAdvice(s.Name, d)
	case s.Name == httpsend.StageStatus:
		return t.answerAdvice()
	}
	switch t.outcome.Class {
	case work.Blocked, work.BlockedName:
		return "admit it if it is meant, or change the destination's url"
	case work.Invalid:
		return "mend it with destination apply, or in the configuration where it comes from there"
	case work.DNS:
		return "check the name in the destination's url, and this machine's name servers"
	case work.TLS:
		return tlsAdvice(s.Message)
	case work.Timeout:
		return "check port, firewall and routes; policies." + d.Policy + ".timeout says how long is waited"
	}
	return "check host and port in the destination's url, and that the receiver listens and firewalls let pass"
}

func missingAdvice(stage string, d work.Destination) string {
	switch stage {
	case stagePolicy:
		return "configure policies." + d.Policy + ", or give the destination another policy"
	case stageKey:
		return "configure keys." + d.Key + " and put its value where it says"
	}
	return "set the variable, put the file there, or take the header out of the destination"
}

// tlsAdvice goes by the kind of fault, with which the message begins.
func tlsAdvice(message string) string {
	kind, _, _ := strings.Cut(message, ":")
	switch kind {
	case "expired":
		return "the receiver has to renew it; if the dates are right, look at this machine's clock"
	case "wrong host":
		return "use the name that the certificate is for in the destination's url, or have the receiver get one for this name"
	case "unknown authority":
		return "put the authority's certificate into the file of egress.ca_file, or have the receiver send its whole chain"
	case "protocol":
		return "the receiver has to speak TLS 1.2 or newer on this port"
	}
	return "the receiver has to mend its certificate"
}

// answerAdvice is for a request that was sent.
func (t tested) answerAdvice() string {
	d := t.destination
	switch t.outcome.Class {
	case work.Redirect:
		return "put where it leads into the destination's url, if that is the receiver"
	case work.Unauthorized:
		if d.Key == "" && len(d.Headers) == 0 {
			return "the receiver wants to know who asks: give the destination a key or a header"
		}
		return "compare key and headers with what the receiver expects, and the clocks"
	case work.RateLimited:
		return "it was asked too often; try later, and lower the destination's rate"
	case work.Rejected:
		return "the receiver refuses the path or " + pingType + "; its log tells which"
	case work.Unavailable:
		return "the receiver is in trouble; its log tells which"
	case work.Timeout:
		return "the receiver has to answer within policies." + d.Policy + ".timeout, best before it does the work"
	case work.Protocol:
		return "what answers there is no web server, or a broken one; check the port"
	}
	return "what stands between may have broken it off: a proxy, a balancer, or the receiver itself; its log may tell"
}
