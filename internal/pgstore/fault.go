package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// fault gives an error of the driver its meaning, by wrapping the sentinel that the
// floors above compare with. The order matters: a killed link has no SQLSTATE.
func fault(err error) error {
	if err == nil || errors.Is(err, work.ErrUnreachable) || errors.Is(err, work.ErrNotFound) || errors.Is(err, work.ErrArchive) {
		return err
	}
	var server *pq.Error
	if errors.As(err, &server) {
		return serverFault(server, err)
	}
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the latter is a net.Error as well
		return err
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: %w", work.ErrNotFound, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: no answer in time; the link is dead, or a statement waits for a lock (see pg_stat_activity): %w", work.ErrUnreachable, err)
	case errors.Is(err, pq.ErrSSLNotSupported):
		return fmt.Errorf("%w: sslmode asks for SSL, which the server does not speak", work.ErrUnreachable)
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.As(err, &network):
		return fmt.Errorf("%w: %w", work.ErrUnreachable, err)
	}
	return err
}

// grantHint says what a role that lacks a grant may be given.
const grantHint = "; grant the log-in role what this takes: whctl_worker to deliver, whctl_producer to enqueue, whctl_operator for destinations and cancelling, whctl_sweeper to sweep, whctl_reader to look (whctl migrate up --roles makes them)"

// refusal is an answer of the server with the meaning it has for whctl.
type refusal struct {
	sentinel error
	what     string // instead of the sentinel's words, where there is more to say
	server   *pq.Error
	hint     string
}

// Error quotes the server's message and code. Neither holds parameters; the detail,
// which may quote rows, is left out.
func (r *refusal) Error() string {
	what := r.what
	if what == "" {
		what = r.sentinel.Error()
	}
	return fmt.Sprintf("%s: %s (SQLSTATE %s)%s", what, r.server.Message, r.server.Code, r.hint)
}

func (r *refusal) Unwrap() []error { return []error{r.sentinel, r.server} }

// serverFault sorts an answer of the server by its SQLSTATE
// (PostgreSQL documentation, appendix A).
func serverFault(server *pq.Error, err error) error {
	code := string(server.Code)
	switch {
	case code == "42501":
		return &refusal{sentinel: work.ErrGrant, server: server, hint: grantHint}
	case code == "42P01", code == "3F000", code == "42703", code == "42883":
		return &refusal{sentinel: work.ErrSchema, server: server, hint: "; run: whctl migrate up"}
	case code == "57014", code == "40001", code == "40P01", code == "55P03":
		return &refusal{sentinel: work.ErrContended, server: server}
	case code == "53100":
		return &refusal{sentinel: work.ErrUnreachable, what: "the database's disk is full", server: server}
	case code == "25006":
		return &refusal{sentinel: work.ErrUnreachable, what: "the database is read-only", server: server}
	case code == "3D000":
		return &refusal{sentinel: work.ErrUnreachable, what: "there is no such database", server: server}
	case strings.HasPrefix(code, "28"):
		return &refusal{sentinel: work.ErrUnreachable, what: "the database refuses the log-in", server: server}
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "53"), code == "57P01", code == "57P02", code == "57P03", code == "57P05", code == "25P03",
		code == "55000": // ALLOW_CONNECTIONS is off: somebody renames or restores it

		return &refusal{sentinel: work.ErrUnreachable, server: server}
	}
	return err
}

// passing says that err may be over in a moment: the server is starting, busy, or
// the link broke. A refused log-in, a read-only server or a full disk stays.
func passing(err error) bool {
	if !errors.Is(err, work.ErrUnreachable) || errors.Is(err, errReadOnly) {
		return false
	}
	var server *pq.Error
	if !errors.As(err, &server) {
		return true
	}
	code := string(server.Code)
	return !strings.HasPrefix(code, "28") && code != "3D000" && code != "25006" && code != "53100"
}

// contention says that the transaction lost a race that a repeat may win.
func contention(err error) bool {
	return pq.As(err, "40001", "40P01", "55P03") != nil
}
