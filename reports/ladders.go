package reports

// rung notes that the fence of an account, or the rail's mark of it, took a value at t (nanoseconds).
func (g *gatherer) rung(t int64, account, value string, rail bool) {
	a := g.survey.accounts.find(account)
	if a < 0 || value == "" {
		return
	}
	l := g.ladders[a]
	if l == nil {
		l = &ladder{Account: a, Fence: []rung{}, Mark: []rung{}}
		g.ladders[a] = l
	}
	rungs := &l.Fence
	if rail {
		rungs = &l.Mark
	}
	*rungs = append(*rungs, rung{micros(t), clip(value, 20)})
	room := max(g.limits.rungs/max(2*len(g.survey.accounts.names), 1), 50)
	if len(*rungs) <= room {
		return
	}
	l.Coarse = true
	*rungs = thin(*rungs, func(r rung) bool { return g.inFocus(r.at*1000, r.at*1000) })
	if len(*rungs) > 2*room {
		*rungs = thin(*rungs, func(rung) bool { return false })
	}
}

// thin leaves out every second rung but those to keep, so that a long ladder stays true at fewer points.
func thin(rungs []rung, keep func(rung) bool) []rung {
	out := rungs[:0]
	for i, r := range rungs {
		if i%2 == 0 || i == len(rungs)-1 || keep(r) {
			out = append(out, r)
		}
	}
	return out
}
