package synthetic

// queue is a heap of things that happen at a time, in order of time and then of entry.
type queue[T any] struct {
	items []timed[T]
	seq   int64
}

type timed[T any] struct {
	at, seq int64
	what    T
}

func (a *timed[T]) before(b *timed[T]) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (q *queue[T]) push(at int64, what T) {
	q.seq++
	q.items = append(q.items, timed[T]{at, q.seq, what})
	for i := len(q.items) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.items[i].before(&q.items[up]) {
			return
		}
		q.items[i], q.items[up] = q.items[up], q.items[i]
		i = up
	}
}

// first is the time of the next item; ok is false when there is none.
func (q *queue[T]) first() (at int64, ok bool) {
	if len(q.items) == 0 {
		return 0, false
	}
	return q.items[0].at, true
}

func (q *queue[T]) pop() T {
	top := q.items[0].what
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items[last] = timed[T]{}
	q.items = q.items[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < last && q.items[down+1].before(&q.items[down]) {
			down++
		}
		if down >= last || !q.items[down].before(&q.items[i]) {
			return top
		}
		q.items[i], q.items[down] = q.items[down], q.items[i]
		i = down
	}
}
