package httpsend

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"example.com/whctl/internal/work"
)

// hostList is egress.allow_hosts or egress.deny_hosts: hosts as mapHost writes them, and
// suffixes, which begin with a dot and stand for every name below them, not for the name
// itself. It is held against the host of the URL: neither against what that is an alias
// of, nor against addresses.
type hostList []string

func (l hostList) contains(host string) bool {
	return slices.ContainsFunc(l, func(pattern string) bool {
		return host == pattern || pattern[0] == '.' && strings.HasSuffix(host, pattern)
	})
}

// readHosts maps the patterns of a setting. An error quotes a pattern only where nothing
// but a name can stand in it.
func readHosts(setting string, patterns []string) (hostList, error) {
	var list hostList
	for i, pattern := range patterns {
		host, why := readPattern(pattern)
		if why != "" {
			return nil, fmt.Errorf("%w: %s: entry %d: %s", work.ErrConfig, setting, i+1, why)
		}
		list = append(list, host)
	}
	return list, nil
}

func readPattern(pattern string) (host, why string) {
	name, below := strings.CutPrefix(pattern, "*.")
	switch _, err := netip.ParseAddr(name); {
	case strings.Contains(pattern, "*") && strings.Trim(pattern, "*.") == "":
		return "", fmt.Sprintf("%q takes in every host: name those that are meant", pattern)
	case strings.ContainsAny(pattern, "/@"):
		return "", "it is no host name: write the name alone, as in hooks.example.org; prefixes stand in egress.allow_cidrs and egress.deny_cidrs"
	case err != nil && strings.Contains(pattern, ":"):
		return "", fmt.Sprintf("%q is no host name: write the name alone, and an address without brackets; ports stand in egress.ports", pattern)
	case err == nil && below, strings.Contains(name, "*"):
		return "", fmt.Sprintf("%q: a star stands for the beginning of a name, as in *.example.org", pattern)
	}
	host, why = mapHost(name)
	if why != "" {
		return "", fmt.Sprintf("%q cannot be used: %s", pattern, why)
	}
	if below {
		host = "." + host
	}
	return host, ""
}

// noAddresses refuses addresses in egress.deny_hosts: a name could stand for the same
// one, and only the address is known when it is dialled.
func (l hostList) noAddresses() error {
	for _, host := range l {
		if _, err := netip.ParseAddr(host); err == nil {
			return fmt.Errorf("%w: egress.deny_hosts: %s is an address: write it in egress.deny_cidrs, where it is refused behind every name as well", work.ErrConfig, host)
		}
	}
	return nil
}
