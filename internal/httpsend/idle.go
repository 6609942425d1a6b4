package httpsend

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// idleConns are connections that wait for the next request to their host. The zero value
// keeps none.
type idleConns struct {
	perHost, most int

	mu     sync.Mutex
	hosts  map[string][]idleConn // each in the order of all
	all    list.List             // of *conn, the one that has waited longest first
	timer  *time.Timer           // of that one; nil: there is none
	closed bool                  // nothing is kept any more
}

type idleConn struct {
	*conn
	place *list.Element
}

// get takes the connection that was used last, or nil.
func (p *idleConns) get(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.hosts[host]
	if len(idle) == 0 {
		return nil
	}
	return p.remove(host, len(idle)-1)
}

// put keeps a connection, or closes it where there are enough.
func (p *idleConns) put(c *conn) {
	if over := p.add(c); over != nil {
		over.Close()
	}
}

func (p *idleConns) add(c *conn) (over *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.hosts[c.host]) >= p.perHost {
		return c
	}
	if p.hosts == nil {
		p.hosts = make(map[string][]idleConn)
	}
	c.since = time.Now()
	p.hosts[c.host] = append(p.hosts[c.host], idleConn{conn: c, place: p.all.PushBack(c)})
	if p.timer == nil {
		p.timer = time.AfterFunc(idleTime, p.tidy)
	}
	if p.all.Len() > p.most {
		return p.oldest()
	}
	return nil
}

// oldest removes the first of all, which is the first of its host.
func (p *idleConns) oldest() *conn {
	return p.remove(p.all.Front().Value.(*conn).host, 0)
}

func (p *idleConns) remove(host string, i int) *conn {
	idle := p.hosts[host]
	c := idle[i]
	p.all.Remove(c.place)
	if len(idle) == 1 {
		delete(p.hosts, host)
	} else {
		p.hosts[host] = slices.Delete(idle, i, i+1)
	}
	return c.conn
}

// tidy closes what has waited for idleTime.
func (p *idleConns) tidy() {
	for _, c := range p.expired(time.Now()) {
		c.Close()
	}
}

func (p *idleConns) expired(now time.Time) (out []*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.all.Len() > 0 {
		wait := idleTime - now.Sub(p.all.Front().Value.(*conn).since)
		if wait > 0 && !p.closed {
			p.timer = time.AfterFunc(wait, p.tidy)
			return out
		}
		out = append(out, p.oldest())
	}
	p.timer = nil
	return out
}

// close ends all of them, and keeps no others.
func (p *idleConns) close() {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.tidy()
}
