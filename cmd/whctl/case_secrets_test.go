package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// places is everything that was said and kept, by where it is.
type places map[string]string

// said adds what a command printed.
func (p places) said(r testbed.Result, args ...string) {
	command := strings.Join(args, " ")
	p["stdout of "+command] += r.Stdout
	p["stderr of "+command] += r.Stderr
}

// shown adds what every command that looks at deliveries and destinations prints, in
// every format.
func (b *theBench) shown(p places) {
	b.t.Helper()
	commands := [][]string{{"dlq", "list"}, {"destination", "list"}, {"config", "show"}}
	for _, name := range b.texts(`SELECT name FROM whctl.destinations ORDER BY name`) {
		commands = append(commands, []string{"destination", "show", name})
	}
	ids := b.texts(`SELECT delivery_id FROM whctl.envelopes ORDER BY delivery_id`)
	commands = append(commands, append([]string{"show"}, ids...))
	for _, c := range commands {
		for _, format := range []string{"table", "wide", "json", "jsonl", "csv", "markdown", "name"} {
			args := append(slices.Clone(c), "-o", format)
			p.said(b.must(0, args...), args...)
		}
	}
}

// kept adds every column of every table and view of the schema, as text.
func (b *theBench) kept(p places) {
	b.t.Helper()
	columns := b.texts(`SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'whctl' AND data_type <> 'bytea'`)
	binary := b.texts(`SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'whctl' AND data_type = 'bytea'`)
	if len(columns) < 60 || !slices.Contains(binary, "envelopes.payload") {
		b.t.Fatalf("columns %v, %v", columns, binary)
	}
	for _, c := range columns {
		table, column, _ := strings.Cut(c, ".")
		p["column "+c] = testbed.QueryString(b.t, b.db, `SELECT string_agg(`+column+`::text, E'\n') FROM whctl.`+table)
	}
	for _, c := range binary {
		table, column, _ := strings.Cut(c, ".")
		p["column "+c] = testbed.QueryString(b.t, b.db, `SELECT string_agg(encode(`+column+`, 'escape') || ' ' || encode(`+column+`, 'hex'), E'\n') FROM whctl.`+table)
	}
}

func (b *theBench) texts(query string) (all []string) {
	b.t.Helper()
	if err := b.db.Admin.SelectContext(b.t.Context(), &all, query); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// wantIn fails for every place but those given that has the secret, and for each of
// those that does not: it would prove nothing then.
func (p places) wantIn(t *testing.T, secret string, where ...string) {
	t.Helper()
	for place, text := range p {
		at := strings.Index(text, secret)
		allowed := slices.Contains(where, place)
		if at >= 0 && !allowed {
			t.Errorf("%q is in %s: …%s…", secret, place, text[max(0, at-200):min(len(text), at+50)])
		}
		if at < 0 && allowed {
			t.Errorf("%q is not in %s", secret, place)
		}
	}
}

// deliverIn runs once for each log format, at the most talkative level.
func (b *theBench) deliverIn(p places) {
	b.t.Helper()
	for _, format := range []string{"text", "json"} {
		args := []string{"deliver", "--once", "--log-level", "debug", "--log-format", format}
		p.said(b.must(0, args...), args...)
		b.dueAgain()
	}
}

// H31: secrets in addresses. The host and the id are enough to find the row.
func TestH31SecretsInAddresses(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := testbed.Raw(t, func(c *testbed.Conn) { _, _ = c.Request() }) // it closes the connection
	b.seen = append(b.seen, r)
	where := "/hook/TOK-5542?token=Q-9910"
	b.db.Destination(t, "closes", "https://"+r.Address+where)
	b.db.Destination(t, "userinfo", "https://user:Pw-7731@"+r.Address+where)
	closes, userinfo := b.due("closes", 1)[0], b.due("userinfo", 1)[0]
	p := places{}
	b.deliverIn(p)
	b.shown(p)
	b.kept(p)
	for _, secret := range []string{"Pw-7731", "TOK-5542", "Q-9910"} {
		p.wantIn(t, secret, "column destinations.url")
	}
	// Asked for, a URL is shown; a password in it is not.
	for _, args := range [][]string{{"destination", "list", "--reveal-url", "-o", "wide"}, {"destination", "show", "userinfo", "--reveal-url", "-o", "json"}} {
		if res := b.must(0, args...); strings.Contains(res.Stdout+res.Stderr, "Pw-7731") || !strings.Contains(res.Stdout, "TOK-5542") {
			t.Errorf("%v: %s", args, res.Stdout)
		}
	}
	if b.status(userinfo, "class") != "invalid" || b.status(userinfo, "state") != "dead" || b.history(closes) != "1.1 reset, 1.2 reset" {
		t.Errorf("userinfo: %s, %s; closes: %s", b.status(userinfo, "class"), b.status(userinfo, "state"), b.history(closes))
	}
	if text := p["stderr of deliver --once --log-level debug --log-format text"]; !strings.Contains(text, closes) || !strings.Contains(text, "127.0.0.1") {
		t.Errorf("neither id nor host: %s", text)
	}
	// Such a URL never gets in by the command that is there for it.
	file := testbed.Config(t, "destinations: [{name: x, url: 'https://user:Pw-7731@hooks.example/TOK-5542'}]")
	res := b.must(78, "destination", "apply", "-f", file)
	if strings.Contains(res.Stderr+res.Stdout, "Pw-7731") || strings.Contains(res.Stderr+res.Stdout, "TOK-5542") || !strings.Contains(res.Stderr, "user name or password") {
		t.Errorf("%s%s", res.Stdout, res.Stderr)
	}
}

const (
	databasePassword = "DbPw-4410"
	proxyPassword    = "PrxPw-3318"
	headerSecret     = "hdr-5ecret-771"
	urlToken         = "TOK-5542"
	urlQuery         = "Q-9910"
	person           = "Grace-Hopper-1906"
	phone            = "5550199731"
	currentKey       = "SecretKeyThatMustNotLeak" // what the base64 stands for
	previousKey      = "OlderKeyThatMustNotLeak!"
)

// planted is every secret in every form in which it could get out.
func planted() []string {
	all := []string{databasePassword, proxyPassword, headerSecret, urlToken, urlQuery, base64.StdEncoding.EncodeToString([]byte("prx:" + proxyPassword))}
	for _, key := range []string{currentKey, previousKey} {
		all = append(all, key, base64.StdEncoding.EncodeToString([]byte(key)), hex.EncodeToString([]byte(key)))
	}
	return all
}

// Invariant 13: no payload, secret or personal datum in any output or table. The payload
// is in its own column and nowhere else, the URL in its own, all others are nowhere.
func TestNoSecretLeavesItsPlace(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.plantSecrets()
	p := places{}
	b.deliverIn(p)
	b.proxied(p)
	b.deliverIn(p)
	b.shown(p)
	b.kept(p)
	b.mistakes(p)
	for _, secret := range planted() {
		switch secret {
		case urlToken, urlQuery:
			p.wantIn(t, secret, "column destinations.url")
		default:
			p.wantIn(t, secret)
		}
	}
	for _, secret := range []string{person, phone} {
		p.wantIn(t, secret, "column envelopes.payload")
	}
	// Hosts are told in small letters.
	for _, secret := range []string{person, urlToken} {
		p.wantIn(t, strings.ToLower(secret))
	}
	// What made all of it possible did happen.
	for _, want := range []string{"400 Bad Request", "307 Temporary Redirect: redirects are not followed", "closed the connection", "connection refused", "the proxy refuses to connect"} {
		if !strings.Contains(p["column attempts.message"], want) {
			t.Errorf("no attempt ended with %q:\n%s", want, p["column attempts.message"])
		}
	}
	if !strings.Contains(p["column attempts.excerpt"], "refused: ") {
		t.Errorf("no answer was kept: %s", p["column attempts.excerpt"])
	}
}

// plantSecrets puts a secret wherever one belongs, and receivers that give away what they
// are told.
func (b *theBench) plantSecrets() {
	b.t.Helper()
	b.configure(settings + "keys: {k: {current: {env: SIGNING}, previous: {env: SIGNING_OLD}}}\n")
	secret := func(key string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(key)) }
	b.env = []string{"SIGNING=" + secret(currentKey), "SIGNING_OLD=" + secret(previousKey), "HEADER=" + headerSecret}
	b.url = withPassword(b.t, b.db.URL)
	// It answers with all it was told, as error pages do.
	echo := testbed.Receiver(b.t, testbed.ReceiverOptions{Handler: func(w http.ResponseWriter, req *http.Request, seen *testbed.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "refused: %s %s %s %v %s", seen.Body, req.Header.Get("X-Token"), req.URL, req.Header, req.Host)
	}})
	// It sends elsewhere, to a host that is made of what it was told.
	elsewhere := testbed.Receiver(b.t, testbed.ReceiverOptions{Handler: func(w http.ResponseWriter, req *http.Request, _ *testbed.Request) {
		w.Header().Set("Location", "https://"+person+"."+req.Header.Get("X-Token")+"."+strings.Trim(req.URL.Path, "/")+".example/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}})
	closes := testbed.Raw(b.t, func(c *testbed.Conn) { _, _ = c.Request() })
	gone := testbed.Receiver(b.t, testbed.ReceiverOptions{})
	gone.Close()
	b.seen = append(b.seen, echo, elsewhere, closes)
	for name, r := range map[string]*testbed.Endpoint{"echo": echo, "elsewhere": elsewhere, "closes": closes, "gone": gone} {
		testbed.Exec(b.t, b.db, `INSERT INTO whctl.destinations (name, url, signing_key, headers) VALUES ($1, $2, 'k', '{"X-Token": {"env": "HEADER"}}')`,
			name, r.URL+"/"+urlToken+"?token="+urlQuery)
		b.db.Enqueue(b.t, name, "s", fmt.Sprintf(`{"student": {"name": %q, "phone": %s}}`, person, phone))
	}
}

// proxied sends what follows through a proxy that takes a password, refuses, and says
// what it was told.
func (b *theBench) proxied(p places) {
	b.t.Helper()
	proxy := testbed.Raw(b.t, func(c *testbed.Conn) {
		r, err := http.ReadRequest(c.R)
		if err != nil {
			return
		}
		told := r.Header.Get("Proxy-Authorization")
		if told == "" {
			b.t.Error("the proxy was not told its password")
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 407 %s\r\nContent-Length: %d\r\n\r\n%s", told, len(told), told)
	}, testbed.ReceiverOptions{Plain: true})
	b.configure(strings.Replace(settings, "egress: {", "egress: {proxy: 'http://prx:"+proxyPassword+"@"+proxy.Address+"', ", 1) +
		"keys: {k: {current: {env: SIGNING}, previous: {env: SIGNING_OLD}}}\n")
	p.said(b.must(0, "config", "validate"), "config", "validate")
}

// mistakes adds what is said about secrets that are wrong.
func (b *theBench) mistakes(p places) {
	b.t.Helper()
	fails := func(code int, env string, args ...string) {
		b.t.Helper()
		cmd := b.cmd(args...)
		cmd.Env = append(cmd.Env, env)
		r := testbed.Run(b.t, cmd)
		if r.Code != code {
			b.t.Errorf("%s: exit %d, want %d: %s", env, r.Code, code, r.Stderr)
		}
		p.said(r, "a mistake")
	}
	deliver := []string{"deliver", "--once", "--log-level", "debug"}
	database := "WHCTL_DATABASE_URL=postgres://app:" + databasePassword
	fails(69, database+"@127.0.0.1:1/app?connect_timeout=1", deliver...)
	fails(78, database+"@127.0.0.1:port/app", deliver...)
	fails(78, database+" @127.0.0.1/app?"+databasePassword+"=%zz", deliver...)
	fails(78, "SIGNING=whsec_*"+currentKey, deliver...)
	fails(78, "WHCTL_EGRESS__PROXY=ftp://prx:"+proxyPassword+"@127.0.0.1", deliver...)
	fails(78, "WHCTL_KEYS__K__CURRENT__ENV=whsec_"+base64.StdEncoding.EncodeToString([]byte(currentKey)), deliver...)
	fails(64, "X=1", "deliver", "--once", "--destination", "")
}

func withPassword(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), databasePassword)
	return u.String()
}
