package pgstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

// guardName is a parameter of a guard: a colon and a name, but not a cast.
var guardName = regexp.MustCompile(`(^|[^:]):(subject|tenant|event_id|event_type|event_version|delivery_id)\b`)

// guardNumbers give the parameters of a guard their places in the statement.
var guardNumbers = map[string]string{
	"subject": "$1", "tenant": "$2", "event_id": "$3", "event_type": "$4", "event_version": "$5", "delivery_id": "$6",
}

// Guard asks a configured statement whether a delivery is still wanted, in a read-only
// transaction. The statement is the configuration's own; what comes from the event goes
// in as parameters. No row and NULL mean no.
func (s *Store) Guard(ctx context.Context, statement string, e work.Envelope) (bool, error) {
	text := guardName.ReplaceAllStringFunc(statement, func(m string) string {
		parts := guardName.FindStringSubmatch(m)
		return parts[1] + guardNumbers[parts[2]]
	})
	// Every parameter is named once, so that the statement may leave any of them out.
	text = "SELECT coalesce((" + strings.TrimRight(text, "; \t\r\n") + "\n), false) FROM (SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text) AS given"
	var wanted bool
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &wanted, text, e.Subject, e.Tenant, e.EventID, e.EventType, e.EventVersion, e.DeliveryID)
	})
	if err != nil {
		return false, fmt.Errorf("guard of event type %q: %w", e.EventType, guardFault(err))
	}
	return wanted, nil
}

// guardFault keeps a table or column that the guard names and that is not there, or that
// the role may not read, from being taken for a fault of whctl's own schema.
func guardFault(err error) error {
	var r *refusal
	if errors.As(err, &r) && errors.Is(r.sentinel, work.ErrSchema) {
		return fmt.Errorf("%w: %s (SQLSTATE %s)", work.ErrConfig, r.server.Message, r.server.Code)
	}
	if errors.As(err, &r) && errors.Is(r.sentinel, work.ErrGrant) {
		return fmt.Errorf("%w: %s (SQLSTATE %s); grant the worker's role what the guard reads", work.ErrGrant, r.server.Message, r.server.Code)
	}
	return err
}
