package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/lib/pq" // of the databases opened here

	"example.com/whctl/internal/localpg"
)

// settings are those of every measurement. What is not named is Postgres' default;
// fsync, synchronous_commit and full_page_writes are on.
func settings() map[string]string {
	return map[string]string{"shared_buffers": "1GB", "max_wal_size": "4GB", "max_connections": "200", "track_io_timing": "on"}
}

// Postgres is the private server.
type Postgres struct {
	server   *localpg.Server
	admin    *sql.DB
	Version  string
	strategy string // how databases are copied
	made     int
	live     map[*Database]bool
}

// StartPostgres starts it.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	server, err := localpg.Start(ctx, localpg.Options{Durable: true, Settings: settings()})
	if err != nil {
		return nil, err
	}
	admin, err := sql.Open("postgres", server.URL("postgres"))
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	p := &Postgres{server: server, admin: admin, live: make(map[*Database]bool)}
	var number int
	err = admin.QueryRowContext(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num')::int`).Scan(&p.Version, &number)
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	if number >= 150000 { // before it, files were always copied
		p.strategy = " STRATEGY file_copy"
	}
	return p, nil
}

// Stop ends the server and removes all that it has written.
func (p *Postgres) Stop() error { return errors.Join(p.admin.Close(), p.server.Stop()) }

// PID is the server's process.
func (p *Postgres) PID() int { return p.server.PID() }

// Database is one of the server's databases.
type Database struct {
	*sql.DB
	URL  string
	name string
	of   *Postgres
}

// Create makes an empty database.
func (p *Postgres) Create(ctx context.Context) (*Database, error) { return p.create(ctx, "") }

// Copy makes a database with all that another one holds, so that each run begins with
// the same pages. Checkpointed: what a run writes is its own.
func (p *Postgres) Copy(ctx context.Context, from *Database) (*Database, error) {
	d, err := p.create(ctx, " TEMPLATE "+from.name+p.strategy)
	if err != nil {
		return nil, err
	}
	_, err = p.admin.ExecContext(ctx, "CHECKPOINT")
	return d, err
}

func (p *Postgres) create(ctx context.Context, how string) (*Database, error) {
	p.made++
	name := fmt.Sprintf("bench_%d", p.made)
	if _, err := p.admin.ExecContext(ctx, "CREATE DATABASE "+name+how); err != nil {
		return nil, err
	}
	url := p.server.URL(name)
	db, err := sql.Open("postgres", url)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(-1) // a database that somebody is connected to cannot be copied
	d := &Database{DB: db, URL: url, name: name, of: p}
	p.live[d] = true
	return d, nil
}

// Clear drops all databases that are still there.
func (p *Postgres) Clear(ctx context.Context) error {
	var failed error
	for d := range p.live {
		failed = errors.Join(failed, d.Drop(ctx))
	}
	return failed
}

// Drop removes the database, whoever is connected.
func (d *Database) Drop(ctx context.Context) error {
	_ = d.Close()
	delete(d.of.live, d)
	_, err := d.of.admin.ExecContext(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)")
	return err
}

// Settle makes a filled database ready to be copied: statistics and visibility are as
// they would be after a while.
func (d *Database) Settle(ctx context.Context) error {
	_, err := d.ExecContext(ctx, "VACUUM ANALYZE")
	return err
}

// WAL is how many bytes the server has written to its log since its beginning.
func (p *Postgres) WAL(ctx context.Context) (bytes float64, err error) {
	err = p.admin.QueryRowContext(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0'`).Scan(&bytes)
	return bytes, err
}

// HoldSnapshot opens a transaction that sees the database as it is now, as a dump or a
// long report does, until release is called.
func (d *Database) HoldSnapshot(ctx context.Context) (release func() error, err error) {
	tx, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `SELECT count(*) FROM whctl.destinations`); err != nil { // the first query takes it
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx.Rollback, nil
}
