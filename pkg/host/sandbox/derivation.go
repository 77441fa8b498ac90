package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

// A .drv file is one term: Derive([outputs],[input derivations],[sources],"system",
// "builder",[arguments],[environment]), in the ATerm format (Nix manual, "Derivation
// and Deriving Path", "ATerm format"); DrvWithVersion("xp-dyn-drv",…) with the same
// parts for dynamic derivations. All that is wanted of it is the environment, whose
// place is the last; so any parts before it will do, in a store of any name.
// (nix-community/go-nix refuses stores other than /nix/store, environments without
// a "name" and dynamic derivations.)

// maxDepth bounds the nesting of terms; real ones have three levels.
const maxDepth = 64

// environmentOf returns the environment of a derivation.
func environmentOf(drv string) (map[string]string, error) {
	if !strings.HasPrefix(drv, "Derive(") && !strings.HasPrefix(drv, "DrvWithVersion(") {
		return nil, errors.New("not a derivation")
	}
	p := aterm{text: drv, at: strings.IndexByte(drv, '(')}
	top, err := p.term(0)
	if err == nil && p.at != len(drv) {
		err = p.wrong("the end")
	}
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	if len(top.list) == 0 {
		return nil, errors.New("a derivation without an environment")
	}
	for _, pair := range top.list[len(top.list)-1].list {
		if len(pair.list) != 2 || pair.list[0].list != nil || pair.list[1].list != nil {
			return nil, errors.New("a derivation whose last part is not an environment")
		}
		env[pair.list[0].text] = pair.list[1].text
	}
	return env, nil
}

// A term is a string, or a list or tuple of terms.
type term struct {
	text string
	list []term // not nil for a list or tuple
}

type aterm struct {
	text string
	at   int
}

func (p *aterm) wrong(want string) error {
	return fmt.Errorf("the derivation has something other than %s (offset %#x)", want, p.at)
}

// next returns the byte at the present place, 0 at the end.
func (p *aterm) next() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *aterm) term(depth int) (term, error) {
	var end byte
	switch p.next() {
	case '"':
		s, err := p.str()
		return term{text: s}, err
	case '(':
		end = ')'
	case '[':
		end = ']'
	}
	if end == 0 || depth > maxDepth {
		return term{}, p.wrong("a string or a list")
	}
	p.at++
	t := term{list: []term{}}
	for p.next() != end {
		if len(t.list) > 0 {
			if p.next() != ',' {
				return term{}, p.wrong("a comma")
			}
			p.at++
		}
		element, err := p.term(depth + 1)
		if err != nil {
			return term{}, err
		}
		t.list = append(t.list, element)
	}
	p.at++
	return t, nil
}

// str reads a string; \n, \r and \t stand for these characters, and a backslash before any other for that one.
func (p *aterm) str() (string, error) {
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case '"':
			p.at++
			return b.String(), nil
		case '\\':
			if p.at++; p.at == len(p.text) {
				return "", p.wrong("the end of a string")
			}
			switch c := p.text[p.at]; c {
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(c)
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", p.wrong("the end of a string")
}
