package stage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"

	"example.com/whctl/internal/bench/peer"
)

// Receiver is the receiver's process.
type Receiver struct {
	URL  string
	cmd  *exec.Cmd
	hold io.Closer
}

// StartReceiver starts cmd, which prints its URL first and ends when its input does.
func StartReceiver(cmd *exec.Cmd) (*Receiver, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the receiver did not say its URL: %w", err), in.Close(), cmd.Wait())
	}
	return &Receiver{URL: strings.TrimSpace(url), cmd: cmd, hold: in}, nil
}

// PID is its process.
func (r *Receiver) PID() int { return r.cmd.Process.Pid }

// Stop ends it.
func (r *Receiver) Stop() error { return errors.Join(r.hold.Close(), r.cmd.Wait()) }

// Seen asks what it has seen since it was last told to forget.
func (r *Receiver) Seen(ctx context.Context) (seen peer.Seen, err error) {
	resp, err := r.ask(ctx, http.MethodGet, "/seen")
	if err != nil {
		return seen, err
	}
	defer func() { _ = resp.Body.Close() }()
	return seen, json.NewDecoder(resp.Body).Decode(&seen)
}

// Forget begins anew.
func (r *Receiver) Forget(ctx context.Context) error {
	resp, err := r.ask(ctx, http.MethodPost, "/forget")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (r *Receiver) ask(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}
