package config

import (
	"path/filepath"

	"example.com/whctl/internal/work"
)

// anchor makes relative paths begin in the folder of the configuration file, so that a
// command finds the same files from every working folder. Without a file they begin in
// the working folder.
func (c *Config) anchor() {
	if c.File == "" {
		return
	}
	from := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(c.File), path)
	}
	reference := func(r work.Reference) work.Reference {
		r.File = from(r.File)
		return r
	}
	c.Egress.CAFile = from(c.Egress.CAFile)
	for name, k := range c.Keys {
		k.Current, k.Previous = reference(k.Current), reference(k.Previous)
		c.Keys[name] = k
	}
	for name, p := range c.Retention.Policies {
		p.ArchiveDir = from(p.ArchiveDir)
		c.Retention.Policies[name] = p
	}
}
