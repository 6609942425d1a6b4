package demo

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"example.com/whctl/internal/localpg"
)

// tickTime is how long the two ticks at once may claim.
const tickTime = "2s"

// configuration is what a user of the story would write, with short times so that nobody
// has to wait long. They leave room for a slow machine: a request may take seconds, and
// base is longer than tickTime, so that no tick meets what it has itself put back.
const configuration = `policies:
  default:
    timeout: 5s
    write_margin: 1s
    lease: 9s
    backoff: {type: exponential, base: 3s, cap: 15m, jitter: 0.2}
    max_in_flight: 4
egress:
  allow_cidrs: [127.0.0.1/32]   # the registrar of this demo
  ca_file: ca.pem
keys:
  enrolment: {current: {env: ENROLMENT_KEY}}
`

const destinations = `destinations:
  - name: registrar
    url: %s
    key: enrolment
`

// stage is everything that the story is played on.
type stage struct {
	dir      string // of the files; the server has its own
	server   *localpg.Server
	admin    *sql.DB // sees both sides
	receiver *receiver
	shell    *shell
}

// build sets the stage. What was set up before an error is taken down again.
func build(ctx context.Context, o Options, t *talk) (_ *stage, err error) {
	s := &stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.strike())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "whctl-demo-"); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	if s.server, err = localpg.Start(ctx, localpg.Options{}); err != nil {
		return nil, err
	}
	if s.admin, err = s.open("postgres"); err != nil {
		return nil, err
	}
	if err = prepareRoles(ctx, s.admin); err != nil {
		return nil, fmt.Errorf("make the roles: %w", err)
	}
	secret := newSecret()
	if err = s.startReceiver(ctx, secret); err != nil {
		return nil, fmt.Errorf("start the receiver: %w", err)
	}
	s.shell = &shell{
		binary: o.Binary, dir: s.dir, talk: t,
		env: environment(o.Streams.LookupEnv, "WHCTL_DATABASE_URL="+s.url("whctl"), keyVariable+"="+secret),
	}
	return s, s.write("env", fmt.Sprintf("export WHCTL_DATABASE_URL='%s'\nexport %s='%s'\nwhctl() { '%s' \"$@\"; }\n",
		s.url("whctl"), keyVariable, secret, strings.ReplaceAll(o.Binary, "'", `'\''`)))
}

// startReceiver makes the receiver's tables, certificate and the files that name it.
func (s *stage) startReceiver(ctx context.Context, secret string) error {
	db, err := s.open("registrar")
	if err != nil {
		return err
	}
	if err := prepareReceiver(ctx, db); err != nil {
		return errors.Join(err, db.Close())
	}
	certificate, authority, err := certify()
	if err != nil {
		return errors.Join(err, db.Close())
	}
	if s.receiver, err = startReceiver(ctx, db, secret, certificate); err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(
		s.write("ca.pem", string(authority)),
		s.write("whctl.yaml", configuration),
		s.write("destinations.yaml", fmt.Sprintf(destinations, s.receiver.url)))
}

// strike takes the stage down: the receiver, the server by its process id, the files.
func (s *stage) strike() error {
	var errs []error
	if s.receiver != nil {
		errs = append(errs, s.receiver.close())
	}
	if s.admin != nil {
		errs = append(errs, s.admin.Close())
	}
	if s.server != nil {
		errs = append(errs, s.server.Stop())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

func (s *stage) write(name, text string) error {
	return os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600)
}

// url is the database as role reaches it, over the socket.
func (s *stage) url(role string) string {
	u, err := url.Parse(s.server.SocketURL("postgres"))
	if err != nil {
		return s.server.SocketURL("postgres") // it was made by url.URL, and parses
	}
	q := u.Query()
	q.Set("user", role)
	u.RawQuery = q.Encode()
	return u.String()
}

func (s *stage) open(role string) (*sql.DB, error) {
	db, err := sql.Open("postgres", s.url(role))
	if err != nil {
		return nil, fmt.Errorf("open the database as %s: %w", role, err)
	}
	return db, nil
}

// newSecret is a signing key in the form of Standard Webhooks.
func newSecret() string {
	key := make([]byte, 32)
	rand.Read(key) // it never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}
