package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// link is what the driver's connections are, and all that a session passes on.
type link interface {
	driver.Conn
	driver.Tx
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// connector makes sessions.
type connector struct {
	*target
	plans *plans
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.target.Connect(ctx)
	if err != nil {
		return nil, err
	}
	l, ok := conn.(link)
	if !ok {
		return conn, nil // another driver: everything as text
	}
	return &session{link: l, greeted: greetedBy(conn), plans: c.plans}, nil
}

// greetedBy is the process that the server named when the connection was made (the
// protocol's BackendKeyData), 0 where that is not known. The driver keeps it to itself:
// a test notices when it keeps it under another name.
func greetedBy(conn driver.Conn) int64 {
	v := reflect.Indirect(reflect.ValueOf(conn))
	if v.Kind() != reflect.Struct {
		return 0
	}
	pid := v.FieldByName("pid")
	if !pid.IsValid() || !pid.CanInt() {
		return 0
	}
	return pid.Int()
}

// session is a connection that begins a transaction and makes its settings in one round
// trip, and prepares what is said again and again where that is safe.
//
// Behind a transaction pooler it is not. Each transaction gets whichever of the server's
// sessions is free: what was prepared in the last one is missing in this one or, worse,
// another client's statement stands there under the same name, for the driver only
// counts them. So every transaction asks, in the same round trip, which process serves
// it; statements are prepared only where it is the one that greeted this connection. A
// pooler greets with a number of its own making.
type session struct {
	link
	greeted int64
	plans   *plans
	said    map[string]*statement // by their text
	direct  bool                  // the transaction under way is served by who greeted
	spoilt  bool                  // not to be used again
}

// settingsKey marks a context whose transaction is to begin with the settings.
type settingsKey struct{}

func withSettings(ctx context.Context, settings string) context.Context {
	return context.WithValue(ctx, settingsKey{}, settings)
}

// BeginTx begins every transaction itself: the driver's own way would take up its
// leftovers at the end of one that began otherwise.
func (c *session) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	begin, err := beginning(o)
	if err != nil {
		return nil, err
	}
	c.direct = false
	if settings, ok := ctx.Value(settingsKey{}).(string); ok {
		var pid int64
		pid, err = c.beginAs(ctx, begin+"; "+settings+"; SELECT pg_backend_pid()")
		c.direct = err == nil && pid == c.greeted
	} else {
		_, err = c.ExecContext(ctx, begin, nil)
	}
	if err != nil {
		// Begun or not, what is left of it must not meet the next one.
		_ = c.Rollback()
		c.spoilt = true
		return nil, err
	}
	return transaction{session: c, given: func() bool { return ctx.Err() != nil }}, nil
}

func beginning(o driver.TxOptions) (string, error) {
	text := "BEGIN"
	switch sql.IsolationLevel(o.Isolation) {
	case sql.LevelDefault:
	case sql.LevelRepeatableRead:
		text += " ISOLATION LEVEL REPEATABLE READ"
	default:
		return "", fmt.Errorf("isolation level %s is not used here", sql.IsolationLevel(o.Isolation))
	}
	if o.ReadOnly {
		return text + " READ ONLY", nil
	}
	return text + " READ WRITE", nil
}

// beginAs runs text, several statements in one message, and reads the number that the
// last one answers.
func (c *session) beginAs(ctx context.Context, text string) (int64, error) {
	rows, err := c.link.QueryContext(ctx, text, nil)
	if err != nil {
		return 0, err
	}
	var answer [1]driver.Value
	err = rows.Next(answer[:])
	if closed := rows.Close(); err == nil {
		err = closed
	}
	if errors.Is(err, io.EOF) {
		return 0, driver.ErrBadConn // no number: whatever it was, it was no server of ours
	}
	pid, _ := answer[0].(int64) // anything else is nobody's number
	return pid, err
}

// IsValid implements driver.Validator.
func (c *session) IsValid() bool { return !c.spoilt && c.link.IsValid() }

// QueryContext implements driver.QueryerContext.
func (c *session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.prepared(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.link.QueryContext(ctx, query, args)
	}
	rows, err := s.QueryContext(ctx, args)
	return rows, c.plans.doubt(err)
}

// ExecContext implements driver.ExecerContext.
func (c *session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.prepared(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.link.ExecContext(ctx, query, args)
	}
	result, err := s.ExecContext(ctx, args)
	return result, c.plans.doubt(err)
}

// transaction is the one under way on a session.
type transaction struct {
	session *session
	given   func() bool // up, by its context
}

// Commit implements driver.Tx.
func (t transaction) Commit() error {
	defer t.ended()
	return t.session.Commit()
}

// Rollback implements driver.Tx.
func (t transaction) Rollback() error {
	defer t.ended()
	return t.session.Rollback()
}

// ended spoils the session of a transaction that was given up: the request to cancel its
// statement may yet arrive, and would meet another one.
func (t transaction) ended() {
	t.session.direct = false
	t.session.spoilt = t.session.spoilt || t.given()
}
