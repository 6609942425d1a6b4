package localpg

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
)

// setPassword gives the superuser a password that nobody knows but this process. Until then
// the superuser cannot log in over TCP at all.
func (s *Server) setPassword(ctx context.Context) (password string, err error) {
	db, err := sql.Open("postgres", s.SocketURL("postgres"))
	if err != nil {
		return "", fmt.Errorf("set the password: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	password = rand.Text()
	verifier, err := scramVerifier(password)
	if err != nil {
		return "", fmt.Errorf("set the password: %w", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("set the password: %w", err)
	}
	// ALTER ROLE takes no parameters; the verifier is base64 and has no quote in it.
	if _, err := tx.ExecContext(ctx, "ALTER ROLE postgres PASSWORD '"+verifier+"'"); err != nil {
		return "", fmt.Errorf("set the password: %w", errors.Join(err, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return "", fmt.Errorf("set the password: %w", err)
	}
	return password, nil
}

// scramVerifier is what Postgres keeps of a password (RFC 5803), with the fewest
// iterations that the driver takes: the password is 128 random bits, there is no
// guessing to slow down, and short runs of the program are measured on this server.
func scramVerifier(password string) (string, error) {
	const iterations = 1000
	salt := make([]byte, 16)
	rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt), b64(stored[:]), b64(mac(salted, "Server Key"))), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
