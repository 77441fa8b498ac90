package loader

import "sync"

// room is the memory of a load. Loads use it one after another: a run over many programs
// would otherwise spend much of its time on new memory.
type room struct {
	load    Load
	objects slab[Object]
	items   slab[item]
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// maxKept is how many objects' memory a room keeps.
const maxKept = 4096

func newLoad() *Load {
	r := rooms.Get().(*room)
	r.load.room = r
	return &r.load
}

// Release hands the memory of a load to the next one. It need not be called; after it,
// neither the load nor any of its objects must be used any more.
func (s *Load) Release() {
	r := s.room
	if r == nil || r.objects.used > maxKept || r.items.used > maxKept {
		return
	}
	r.objects.reset(func(o *Object) {
		clear(o.Uses)
		clear(o.names)
		*o = Object{Uses: o.Uses[:0], names: o.names[:0]}
	})
	r.items.reset(func(i *item) { *i = item{} })
	clear(s.Objects)
	*s = Load{Objects: s.Objects[:0]}
	rooms.Put(r)
}

// object returns a new object.
func (s *Load) object() *Object {
	if s.room == nil {
		return new(Object)
	}
	return s.room.objects.next()
}

// item returns a new item.
func (s *Load) item(o *Object) *item {
	if s.room == nil {
		return &item{o: o}
	}
	i := s.room.items.next()
	i.o = o
	return i
}

const piece = 16

// slab hands out values in pieces of memory that it keeps.
type slab[T any] struct {
	pieces []*[piece]T
	used   int
}

func (s *slab[T]) next() *T {
	if s.used == len(s.pieces)*piece {
		s.pieces = append(s.pieces, new([piece]T))
	}
	v := &s.pieces[s.used/piece][s.used%piece]
	s.used++
	return v
}

// reset takes back all values; empty makes one as good as new.
func (s *slab[T]) reset(empty func(*T)) {
	for i := range s.used {
		empty(&s.pieces[i/piece][i%piece])
	}
	s.used = 0
}
