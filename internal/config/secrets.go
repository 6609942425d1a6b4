package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"example.com/whctl/internal/work"
)

// Resolver turns references into the values of secrets. The zero value reads the
// process' environment and the file system.
type Resolver struct {
	LookupEnv func(string) (string, bool)
	ReadFile  func(string) ([]byte, error)
}

// ErrEmpty says that a variable or file is there with nothing but blanks in it.
var ErrEmpty = errors.New("is empty")

// Value is the secret behind ref. Blanks and line ends around it are not part of it:
// editors and echo put them there, also into what becomes a variable. Errors name the variable or the
// file, never a value, and wrap work.ErrConfig.
func (r Resolver) Value(ref work.Reference) (string, error) {
	var value string
	var err error
	switch {
	case ref.Env != "" && ref.File == "":
		value, err = r.variable(ref.Env)
	case ref.File != "" && ref.Env == "":
		value, err = r.file(ref.File)
	default:
		err = fmt.Errorf("a reference names exactly one of a variable and a file")
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", work.ErrConfig, err)
	}
	return value, nil
}

func (r Resolver) variable(name string) (string, error) {
	lookup := r.LookupEnv
	if lookup == nil {
		lookup = os.LookupEnv
	}
	value, ok := lookup(name)
	if !ok {
		return "", fmt.Errorf("environment variable %s is not set", name)
	}
	if value = strings.TrimSpace(value); value == "" {
		return "", fmt.Errorf("environment variable %s %w", name, ErrEmpty)
	}
	return value, nil
}

func (r Resolver) file(name string) (string, error) {
	read := r.ReadFile
	if read == nil {
		read = readBounded
	}
	data, err := read(name)
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("secret file: %w (let user id %d read it, as which this runs)", err, os.Geteuid())
	}
	if err != nil {
		return "", fmt.Errorf("secret file: %w", err)
	}
	value := strings.TrimSpace(string(data))
	if value == "" {
		return "", fmt.Errorf("secret file %s %w", name, ErrEmpty)
	}
	return value, nil
}
