package cli

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/httpsend"
	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

const maxDestinationInFlight = policy.MaxMaxInFlight

// check adds a problem for everything in the file that this configuration cannot use,
// and puts into each destination what the SQL functions have to know of it.
func (f *destinationFile) check(c *config.Config, sender *httpsend.Sender) {
	if !f.listed && len(f.problems) == 0 {
		f.problem(1, "the key destinations is missing")
	}
	first := map[string]int{}
	for i := range f.entries {
		e := &f.entries[i]
		if e.Policy == "" {
			e.Policy = policy.Default().Name
		}
		if line, twice := first[e.Name]; twice && e.Name != "" {
			f.problem(e.line("name"), "%s.name: %s is there already, in line %d", e.where, shortQuote(e.Name), line)
		} else {
			first[e.Name] = e.line("name")
		}
		f.checkEntry(*e, c, sender)
		e.Body = c.Policies[e.Policy].Body
		e.PayloadMax = c.Enqueue.PayloadMax
	}
}

func (f *destinationFile) checkEntry(e destinationEntry, c *config.Config, sender *httpsend.Sender) {
	fail := func(key, format string, args ...any) {
		f.problem(e.line(key), "%s.%s: "+format, append([]any{e.where, key}, args...)...)
	}
	if err := work.CheckDestinationName(e.Name); err != nil {
		fail("name", "want 1 to %d of A-Z a-z 0-9 . _ -, beginning with a letter or digit, not %s", work.MaxDestination, shortQuote(e.Name))
	}
	if e.URL == "" {
		fail("url", "there is none")
	} else if err := sender.CheckURL(e.URL); err != nil {
		fail("url", "%s", plainConfig(err))
	}
	if _, known := c.Policies[e.Policy]; !known {
		fail("policy", "%s is not configured (configured: %s)", shortQuote(e.Policy), strings.Join(slices.Sorted(maps.Keys(c.Policies)), ", "))
	}
	key, known := c.Keys[e.Key]
	if !known && e.Key != "" {
		fail("key", "%s is not configured (configured: %s)", shortQuote(e.Key), orNone(slices.Sorted(maps.Keys(c.Keys))))
	}
	if e.Rate != "" {
		if _, err := policy.ParseRate(e.Rate); err != nil {
			fail("rate", "%v", err)
		}
	}
	if err := httpsend.CheckHeaders(slices.Collect(maps.Keys(e.Headers))); err != nil {
		fail("headers", "%s", plainConfig(err))
	}
	for _, name := range setTwice(e.Destination, key.Signature) {
		fail("headers", "header %s is set by the signature of key %s", shortQuote(name), shortQuote(e.Key))
	}
	seen := map[string]bool{}
	for _, t := range e.Tenants {
		if len(t) > work.MaxTenant || !utf8.ValidString(t) || seen[t] {
			fail("tenants", "%s is there twice, longer than %d bytes or no text", shortQuote(t), work.MaxTenant)
		}
		seen[t] = true
	}
}

// setTwice names the headers of d's own that its key's signature sets as well.
func setTwice(d work.Destination, s work.Signature) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.Headers)), func(name string) bool {
		canonical, why := work.HeaderKey(name)
		return why != "" || !slices.Contains(s.Headers(), canonical)
	})
}

// plainConfig is the text without the sentinel's words.
func plainConfig(err error) string {
	return strings.TrimPrefix(err.Error(), work.ErrConfig.Error()+": ")
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
