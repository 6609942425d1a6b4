package httpsend

import "sync"

// maxCached bounds a cache; its keys are destinations' URLs and keys, so that it is
// reached only by a configuration that changes all the time.
const maxCached = 4096

// cache remembers what costs more to make than to look up. The zero value is ready.
type cache[V any] struct {
	mu sync.RWMutex
	m  map[string]V
}

func (c *cache[V]) get(key string, create func(string) V) V {
	c.mu.RLock()
	v, ok := c.m[key]
	c.mu.RUnlock()
	if ok {
		return v
	}
	v = create(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxCached {
		c.m = make(map[string]V)
	}
	c.m[key] = v
	return v
}
