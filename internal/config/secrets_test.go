package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/work"
)

func TestResolver(t *testing.T) {
	w := world{
		files: map[string]string{"/run/key": "\n whsec_abc \r\n", "/run/empty": "\n\n"},
		env:   map[string]string{"KEY": "whsec_def", "ENDED": "whsec_ghi\r\n", "EMPTY": " "},
	}
	o := w.options()
	r := config.Resolver{LookupEnv: o.LookupEnv, ReadFile: o.ReadFile}
	tests := []struct {
		ref  work.Reference
		want string
		err  string
	}{
		{work.Reference{Env: "KEY"}, "whsec_def", ""},
		{work.Reference{File: "/run/key"}, "whsec_abc", ""},
		{work.Reference{Env: "ENDED"}, "whsec_ghi", ""},
		{work.Reference{Env: "GONE"}, "", "environment variable GONE is not set"},
		{work.Reference{Env: "EMPTY"}, "", "environment variable EMPTY is empty"},
		{work.Reference{File: "/run/gone"}, "", "secret file: open /run/gone: file does not exist"},
		{work.Reference{File: "/run/empty"}, "", "secret file /run/empty is empty"},
		{work.Reference{}, "", "exactly one"},
		{work.Reference{Env: "KEY", File: "/run/key"}, "", "exactly one"},
	}
	for _, tt := range tests {
		got, err := r.Value(tt.ref)
		if got != tt.want || (err == nil) != (tt.err == "") {
			t.Errorf("%+v: %q, %v", tt.ref, got, err)
		}
		if err != nil && (!errors.Is(err, work.ErrConfig) || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "whsec")) {
			t.Errorf("%+v: %v", tt.ref, err)
		}
	}
}

// Who has to be let in is said: cron's user is seldom the one that wrote the file.
func TestASecretThatMayNotBeRead(t *testing.T) {
	r := config.Resolver{ReadFile: func(name string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}}
	_, err := r.Value(work.Reference{File: "/run/key"})
	if want := fmt.Sprintf("open /run/key: permission denied (let user id %d read it", os.Geteuid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestResolverOfTheProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("A_KEY_OF_THE_TEST", "other")
	for want, ref := range map[string]work.Reference{"s3cret": {File: name}, "other": {Env: "A_KEY_OF_THE_TEST"}} {
		if got, err := (config.Resolver{}).Value(ref); err != nil || got != want {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestMaskURL(t *testing.T) {
	tests := map[string]string{
		"":                       "",
		"none":                   "none",
		"postgres:///app":        "postgres:///app",
		"postgres://app@db/app":  "postgres://app@db/app",
		"postgres://db:5432/app": "postgres://db:5432/app",
		"postgres://[::1]:5432/": "postgres://[::1]:5432/",
		"postgresql://app:hunter2@db:5432/app?sslmode=require": "postgresql://app:*****@db:5432/app?sslmode=require",
		"postgres://app:@db/":                            "postgres://app:*****@db/",
		"postgres://app:hunter2:hunter2@db/":             "postgres://app:*****@db/",
		"postgres://app:hun@ter2@db/":                    "postgres://app:*****@db/",
		"postgres://app:hun/ter2@db/app":                 "postgres://app:*****@db/app",
		"postgres://app:hun?ter2@db/app":                 "postgres://app:*****?*****",
		"postgres://app:hun#ter2@db/app":                 "postgres://app:*****@db/app",
		"postgres://app:a?hunter2=1@db/app":              "postgres://app:*****?*****",
		"postgres://db/app?user=u&password=hunter2":      "postgres://db/app?user=u&password=*****",
		"postgres://db/app?PASSWORD=hunter2#hunter2":     "postgres://db/app?PASSWORD=*****#*****",
		"postgres://db/app?pass%77ord=hunter2&sslmode=x": "postgres://db/app?pass%77ord=*****&sslmode=x",
		"postgres://db/app?%zz=hunter2":                  "postgres://db/app?*****",
		"postgres://db/app?hunter2":                      "postgres://db/app?*****",
		"https://db/x?token=hunter2&api_key=hunter2&q=1": "https://db/x?token=*****&api_key=*****&q=1",
		"http://hunter2@proxy:3128":                      "http://*****@proxy:3128",
		"http://u:hunter2@proxy:3128":                    "http://*****@proxy:3128",
		"http://hunter2?x@proxy":                         "http://*****?*****",
		"host=db user=app password=hunter2":              "host=db user=app password=*****",
		"host=db password='hun ter2' sslmode=require":    "host=db password=***** sslmode=require",
		`password='hun\' host=ter2' host=db`:             "password=***** host=db",
		`password=hun\ host=ter2 dbname=a`:               "password=***** dbname=a",
		"PassWord = hunter2  host = db":                  "PassWord=***** host=db",
		"sslpassword=hunter2":                            "sslpassword=*****",
		"password=hun ter2":                              "*****",
		"password='hunter2":                              "*****",
		"password=it'shunter2":                           "*****",
		"hunter2":                                        "*****",
		" postgres://app:hunter2@db/":                    "*****",
		"host=db options=-csearch_path=x":                "host=db options=-csearch_path=x",
		"host=db sslrootcert=file://x password=hunter2":  "host=db sslrootcert=file://x password=*****",
	}
	for in, want := range tests {
		if got := config.MaskURL(in); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got, want)
		}
	}
}

// A password in its place never shows, whatever signs it is made of.
func TestMaskURLHidesPasswords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const mark = "hunter2"
		noise := rapid.StringMatching(`[a-z:/?#@&=%+' \\]{0,6}`)
		password := noise.Draw(t, "before") + mark + noise.Draw(t, "after")
		for _, s := range []string{
			"postgres://app:" + password + "@db/app?sslmode=require",
			"postgres://db/app?sslmode=require&password=" + strings.NewReplacer("&", "", "#", "").Replace(password),
			"http://" + password + "@proxy:80",
			"host=db password='" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(password) + "' dbname=app",
		} {
			if got := config.MaskURL(s); strings.Contains(got, mark) {
				t.Fatalf("%s shows as %s", s, got)
			}
		}
	})
}

func FuzzMaskURL(f *testing.F) {
	f.Add("postgres://u:p@h/d?x=y")
	f.Add("host=a password='b c'")
	f.Fuzz(func(_ *testing.T, s string) { config.MaskURL(s) })
}
