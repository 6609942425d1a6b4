package checker

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Violation is one invariant broken by one delivery.
type Violation struct {
	Kind       string // the rule, such as post_without_attempt
	DeliveryID string // "" where the row has none
	Message    string
}

func (v Violation) String() string {
	if v.DeliveryID == "" {
		return v.Kind + ": " + v.Message
	}
	return v.Kind + ": delivery " + v.DeliveryID + ": " + v.Message
}

// perRule bounds how many violations of one rule are named.
const perRule = 100

// namedSQL makes a bounded, ordered list of what a rule answers.
const namedSQL = `SELECT v.delivery_id, v.message FROM (%s) AS v (delivery_id, message)
ORDER BY v.delivery_id, v.message LIMIT %d`

// Check reads the tables of schema and names every broken invariant, at most 100 of
// a kind. seen is what receivers saw; without it only the tables are judged. The
// errors are those of the database.
func Check(ctx context.Context, db *sql.DB, schema string, seen []Seen, options ...Option) (found []Violation, err error) {
	in, err := input(seen, options)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("begin the check: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it only read
	// The rules name tables alone; temporary tables must not stand in for them. Tables that
	// were filled a moment ago have no statistics yet, and a nested loop planned for ten
	// rows takes minutes for many thousands.
	settings := "SET LOCAL search_path = " + quoted(schema) + ", pg_temp; SET LOCAL enable_nestloop = off"
	if _, err := tx.ExecContext(ctx, settings); err != nil {
		return nil, fmt.Errorf("look into schema %s: %w", schema, err)
	}
	for _, r := range rules() {
		if in.without[r.kind] {
			continue
		}
		args, applies := r.args(in)
		if !applies {
			continue
		}
		if found, err = r.append(ctx, tx, found, args); err != nil {
			return nil, fmt.Errorf("check %s: %w", r.kind, err)
		}
	}
	return found, nil
}

func (r rule) append(ctx context.Context, tx *sql.Tx, found []Violation, args []any) ([]Violation, error) {
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(namedSQL, r.sql, perRule), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		v := Violation{Kind: r.kind}
		if err := rows.Scan(&v.DeliveryID, &v.Message); err != nil {
			return nil, err
		}
		found = append(found, v)
	}
	return found, rows.Err()
}

// quoted is name as an SQL identifier.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Kinds lists the kinds of violation in the order in which they are looked for.
func Kinds() []string {
	var kinds []string
	for _, r := range rules() {
		kinds = append(kinds, r.kind)
	}
	return kinds
}
