package cli

import (
	"example.com/whctl/internal/config"
	"example.com/whctl/internal/httpsend"
)

// newSender makes the sender that the configuration asks for, with places requests in
// flight at most (0: the default). Its errors wrap work.ErrConfig.
func (a *app) newSender(c *config.Config, places int) (*httpsend.Sender, error) {
	e := c.Egress
	return httpsend.New(httpsend.Config{
		RequireHTTPS: e.RequireHTTPS, AllowHosts: e.AllowHosts, DenyHosts: e.DenyHosts, AllowCIDRs: e.AllowCIDRs, DenyCIDRs: e.DenyCIDRs, Ports: e.Ports,
		CAFile: e.CAFile, Proxy: e.Proxy, Redact: c.Redact, UserAgent: "whctl/" + a.version, MaxPlaces: places,
	})
}
