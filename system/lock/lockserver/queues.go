package lockserver

import (
	"container/list"
	"sync"
)

// queues hold, per key, those who wait for it in the order of their arrival. Only the first of a key asks the backend:
// a thousand waiters cost it no more than one, and nobody is overtaken within this process but by newcomers who find the
// key free.
type queues struct {
	limit int

	mu   sync.Mutex
	keys map[string]*list.List // of *place
	all  int
}

// place is one waiter's place in the queue of its key.
type place struct {
	first chan struct{} // closed when nobody is before it
	of    *queues
	key   string
	at    *list.Element
}

func newQueues(limit int) *queues { return &queues{limit: limit, keys: map[string]*list.List{}} }

// join takes the last place of the key's queue; ok is false when the queue is full.
func (q *queues) join(key string) (p *place, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[key]
	if l == nil {
		l = list.New()
		q.keys[key] = l
	}
	if l.Len() >= q.limit {
		return nil, false
	}
	p = &place{first: make(chan struct{}), of: q, key: key}
	p.at = l.PushBack(p)
	q.all++
	if l.Len() == 1 {
		close(p.first)
	}
	return p, true
}

// leave gives the place up. The next in the queue becomes the first when the first leaves.
func (p *place) leave() {
	q := p.of
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[p.key]
	wasFirst := l.Front() == p.at
	l.Remove(p.at)
	q.all--
	if l.Len() == 0 {
		delete(q.keys, p.key)
		return
	}
	if wasFirst {
		close(l.Front().Value.(*place).first)
	}
}

// count is the number of waiters of a key.
func (q *queues) count(key string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.keys[key]; l != nil {
		return l.Len()
	}
	return 0
}

// total is the number of waiters of all keys.
func (q *queues) total() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all
}
