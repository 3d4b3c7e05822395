package model

import "testing"

// BenchmarkExplore visits every state of the whole protocol with one late request.
func BenchmarkExplore(b *testing.B) {
	w := Plenty()
	w.Late = 1
	p := Protocol{World: w}
	states := 0
	for b.Loop() {
		e, err := p.Explore(stateLimit)
		if err != nil {
			b.Fatal(err)
		}
		states += e.States
	}
	b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
}
