package main

import (
	"fmt"
	"time"

	"fenceproof/checker/run"
	"fenceproof/nemesis/plan"

	"github.com/spf13/pflag"
)

// railFlags are the habits of the rail. A run with all fences on meets them by default; with a fence off the experiment
// is about stopped executors and nothing else (page 1.7 of the contract), so there they default to none.
type railFlags struct {
	declines, lostReplies float64
	lookupLag             time.Duration
}

func (r *railFlags) register(fs *pflag.FlagSet) {
	const off = "; 0 by default where a fence is off"
	fs.Float64Var(&r.declines, "declines", run.DefaultDeclines, "share of transfers that the rail declines, 0 to 1"+off)
	fs.Float64Var(&r.lostReplies, "lost-replies", run.DefaultLostReplies, "share of transfers whose reply is lost, 0 to 1"+off)
	fs.DurationVar(&r.lookupLag, "lookup-lag", run.DefaultLookupLag, "how far the rail's look-up is behind"+off)
}

// in are the flags as a run with these fences has them: given, or the default.
func (r railFlags) in(fencing run.Fencing, fs *pflag.FlagSet) railFlags {
	if fencing == run.FencingOn {
		return r
	}
	if !fs.Changed("declines") {
		r.declines = 0
	}
	if !fs.Changed("lost-replies") {
		r.lostReplies = 0
	}
	if !fs.Changed("lookup-lag") {
		r.lookupLag = 0
	}
	return r
}

// again names the flags that p needs and fencing does not bring by itself.
func (r railFlags) again(p plan.Plan, fencing run.Fencing, add func(name, value, def string)) {
	def := railFlags{run.DefaultDeclines, run.DefaultLostReplies, run.DefaultLookupLag}
	if fencing != run.FencingOn {
		def = railFlags{}
	}
	add("declines", fmt.Sprint(p.Declines), fmt.Sprint(def.declines))
	add("lost-replies", fmt.Sprint(p.LostReplies), fmt.Sprint(def.lostReplies))
	add("lookup-lag", p.LookupLag.String(), def.lookupLag.String())
}

// controllable refuses a control in which more goes on than the sets of what must and may fall are about.
func controllable(p plan.Plan) error {
	if p.Declines > 0 || p.LostReplies > 0 {
		return usage("a control needs a rail that declines nothing and loses no reply: --declines 0 --lost-replies 0")
	}
	for i, s := range p.Steps {
		if !s.Target.Executor() {
			return usage("a control stops executors only, and step %d of the plan is on %s; --fencing rail-off --plan-only, say, prints one that does", i+1, s.Target)
		}
	}
	return nil
}
