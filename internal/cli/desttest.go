package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/httpsend"
	"example.com/whctl/internal/work"
)

// pingType is the event type of what `destination test` sends.
const pingType = "whctl.ping"

func newDestinationTestCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Send one signed ping and show each stage of it",
		Long: `Send one signed ping to a destination and show each stage of it with its time: policy, key, url, headers, dns,
guard, connect, tls, request, status. It stops at the first that fails and says what to do. Guard, connection,
headers and signature are those of every delivery, and so is the time limit, that of the policy.

The receiver gets a POST of type ` + pingType + ` with a delivery id of its own and must answer 2xx. It is no delivery:
nothing of it is recorded in the work table, and it is not tried again. Where the body is raw, it is {}.

Exit codes: 0 when the answer is 2xx; 3 when the egress guard refuses; 4 when there is no such destination; 78 when
policy, key or the value of a header is missing, or the URL or a header can never be sent; 1 when anything else
fails. With --quiet it prints nothing when all is well.`,
		Example: `  whctl destination test carrier-b
  whctl destination test carrier-b -o json --jq '.stages[] | select(.ok | not)'`,
		Args:              oneDestination,
		RunE:              func(cmd *cobra.Command, args []string) error { return runDestinationTest(cmd.Context(), a, args[0]) },
		ValidArgsFunction: a.destinationArgs,
	}
}

func runDestinationTest(ctx context.Context, a *app, name string) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	endpoints, err := a.newEndpoints(c, 1)
	if err != nil {
		return err
	}
	defer endpoints.sender.Close()
	d, err := a.destination(ctx, c, name)
	if err != nil {
		return err
	}
	if d.Fault != nil {
		return d.Fault
	}
	result, err := endpoints.test(ctx, d)
	if err != nil {
		return err
	}
	if ctx.Err() != nil && result.outcome.Status == 0 {
		return context.Cause(ctx)
	}
	if !a.global.quiet || !result.ok() {
		if err := writeTested(a.io.Out, format, result); err != nil {
			return err
		}
	}
	return result.verdict()
}

// destination reads one destination, and lets go of the database.
func (a *app) destination(ctx context.Context, c *config.Config, name string) (work.Destination, error) {
	s, err := a.openStore(ctx, c, storeNeeds{})
	if err != nil {
		return work.Destination{}, err
	}
	d, _, err := s.Destination(ctx, name)
	return d, errors.Join(err, s.Close())
}

// tested is a destination that was tested, as far as it went.
type tested struct {
	destination work.Destination
	outcome     work.Outcome // the zero value when nothing could be made ready
	stages      []httpsend.Stage
	missing     error // what is not configured
}

func (t tested) ok() bool { return t.outcome.Class == work.OK }

// last is the stage that it ended at.
func (t tested) last() httpsend.Stage { return t.stages[len(t.stages)-1] }

// The stages before those of httpsend, beside its StageHeaders: a value may be missing.
const (
	stagePolicy = "policy"
	stageKey    = "key"
)

// test sends the ping. An error means that there was none to send.
func (e *endpoints) test(ctx context.Context, d work.Destination) (tested, error) {
	t := tested{destination: d}
	p, err := e.policyOf(d)
	if !t.found(stagePolicy, err, "%s: %s for the whole request", d.Policy, config.FormatDuration(p.Timeout)) {
		return t, nil
	}
	key, err := e.keyOf(d)
	if !t.found(stageKey, err, "%s", keyText(d, key)) {
		return t, nil
	}
	headers, err := e.headersOf(d, key)
	if err != nil {
		t.found(httpsend.StageHeaders, err, "")
		return t, nil
	}
	kind := d.Body
	if kind == work.BodyUnset {
		kind = p.Body
	}
	r := requestTo(d, p, key, headers)
	if err := ping(&r, d, kind); err != nil {
		return t, err
	}
	outcome, stages := e.sender.Probe(ctx, r)
	t.outcome, t.stages = outcome, append(t.stages, stages...)
	return t, nil
}

// found adds a stage of the configuration, and tells whether it is there.
func (t *tested) found(stage string, err error, format string, args ...any) bool {
	s := httpsend.Stage{Name: stage, OK: err == nil, Message: fmt.Sprintf(format, args...)}
	if err != nil {
		t.missing, s.Message = err, strings.ReplaceAll(err.Error(), work.ErrConfig.Error()+": ", "")
	}
	t.stages = append(t.stages, s)
	return s.OK
}

// ping makes r the first attempt of a delivery that is in no table.
func ping(r *httpsend.Request, d work.Destination, kind work.BodyKind) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make a delivery id: %w", err)
	}
	attempt, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an attempt id: %w", err)
	}
	r.DeliveryID, r.AttemptID, r.Attempt, r.Generation = id.String(), attempt, 1, 1
	r.Body, err = work.Envelope{
		DeliveryID: r.DeliveryID, Destination: d.Name, Subject: d.Name, EventType: pingType, EventVersion: "1",
		EventID: r.DeliveryID, EventAt: time.Now(), Payload: []byte("{}"),
	}.Bytes(kind)
	return err
}

func keyText(d work.Destination, key signingKey) string {
	switch {
	case d.Key == "":
		return "none: the request is not signed"
	case key.signature.Plain():
		return fmt.Sprintf("%s, %s", d.Key, key.signature.Type)
	}
	return fmt.Sprintf("%s, %s, values: %d", d.Key, work.StandardWebhooks, len(key.live))
}

// verdict is how the command ends.
func (t tested) verdict() error {
	if t.ok() {
		return nil
	}
	kind := errTestFailed
	switch {
	case t.missing != nil, t.outcome.Class == work.Invalid:
		kind = work.ErrConfig
	case t.outcome.Class == work.Blocked, t.outcome.Class == work.BlockedName:
		kind = work.ErrRefused
	}
	return fmt.Errorf("%w: destination %q, stage %s: %s", kind, t.destination.Name, t.last().Name, t.last().Message)
}

var errTestFailed = errors.New("the test failed")
