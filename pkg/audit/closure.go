package audit

import "sync"

// closures asks Nix what a store path brings along, once each.
type closures struct {
	mu sync.Mutex
}

// providers remembers which libraries an audit has seen, and where.
type providers struct {
	mu     sync.Mutex
	byName map[string]string
}

func newProviders() *providers { return &providers{byName: map[string]string{}} }
