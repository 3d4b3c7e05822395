package plan

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// example is the default run's plan, before its steps.
func example(seed uint64) Plan {
	return Plan{
		Workload: "payout", Backend: "pg", Nemesis: "pause", Seed: seed, Executors: 6, Accounts: 12, Rate: 20,
		Drive: Duration(30 * time.Second), Prepare: Duration(50 * time.Millisecond),
	}
}

func generate(t testing.TB, p Plan) Plan {
	t.Helper()
	p, err := Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(t testing.TB, p Plan) string {
	t.Helper()
	b, err := p.Write()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOneSeedMakesOnePlanAndAnotherSeedAnother(t *testing.T) {
	if a, b := text(t, generate(t, example(7))), text(t, generate(t, example(7))); a != b {
		t.Errorf("seed 7 made two plans:\n%s\n%s", a, b)
	}
	if a, b := text(t, generate(t, example(7))), text(t, generate(t, example(8))); a == b {
		t.Error("seeds 7 and 8 made the same plan")
	}
}

func TestAPrintedPlanReadsBackAsItself(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := example(rapid.Uint64().Draw(rt, "seed"))
		p.Drive = Duration(rapid.Int64Range(1, int64(MaxDrive/time.Millisecond)/20).Draw(rt, "drive in ms")) * Duration(time.Millisecond)
		p.Executors = rapid.IntRange(2, MaxExecutors).Draw(rt, "executors")
		p, err := Generate(p)
		if err != nil {
			rt.Fatal(err)
		}
		back, err := Parse([]byte(text(t, p)))
		if err != nil {
			rt.Fatalf("%v\n%s", err, text(t, p))
		}
		if text(t, back) != text(t, p) {
			rt.Fatalf("it came back as\n%s\nand was\n%s", text(t, back), text(t, p))
		}
	})
}

func TestEverySecondPauseAimsAtTheRailAndTheOthersAtEachWriteToTheRow(t *testing.T) {
	p := generate(t, example(1))
	count := map[Event]int{}
	for i, s := range p.Steps {
		count[s.On]++
		if (s.On == SubmittedOK) != (i%2 == 0) {
			t.Errorf("step %d is triggered by %s", i+1, s.On)
		}
		if s.Until != NextFence(s.On) || s.Target != Holder || s.Delay != p.Prepare/2 {
			t.Errorf("step %d is %+v", i+1, s)
		}
	}
	for _, e := range []Event{ClaimOK, SubmitOK, OutcomeOK} {
		if min, max := len(p.Steps)/6-1, len(p.Steps)/6+1; count[e] < min || count[e] > max {
			t.Errorf("%d of %d steps are triggered by %s", count[e], len(p.Steps), e)
		}
	}
}

func TestNoStepOutlastsTheDrive(t *testing.T) {
	for _, drive := range []time.Duration{time.Second, 3 * time.Second, 8 * time.Second, 30 * time.Second, 5 * time.Minute} {
		p := example(3)
		p.Drive = Duration(drive)
		for i, s := range generate(t, p).Steps {
			if s.At+s.For > p.Drive {
				t.Errorf("drive %s: step %d may last until %s", drive, i+1, s.At+s.For)
			}
		}
	}
}

func TestAWrongPlanIsRefusedWithWhatWasMeant(t *testing.T) {
	good := text(t, generate(t, example(7)))
	for name, c := range map[string]struct{ replace, with, want string }{
		"a mistyped trigger":        {`"submitted.ok"`, `"submited.ok"`, `did you mean "submitted.ok"?`},
		"a mistyped end":            {`"successor.at_rail"`, `"successor.atrail"`, `did you mean "successor.at_rail"?`},
		"an executor too many":      {`"holder"`, `"executor-7"`, `did you mean "executor-`},
		"a mistyped fault":          {`"fault": "pause"`, `"fault": "paus"`, `did you mean "pause"?`},
		"a mistyped nemesis":        {`"nemesis": "pause"`, `"nemesis": "pauze"`, `did you mean "pause"?`},
		"a mistyped backend":        {`"backend": "pg"`, `"backend": "gp"`, `did you mean "pg"?`},
		"a field nobody knows":      {`"until"`, `"untill"`, `unknown field "untill" in step 1; did you mean "until"?`},
		"a field in another case":   {`"seed"`, `"Seed"`, `unknown field "Seed" in the plan; did you mean "seed"?`},
		"a field twice":             {`"rate": 20,`, `"rate": 20, "rate": 30,`, "rate stands there twice"},
		"a word for a duration":     {`"for": "6s"`, `"for": "soon"`, `for: "soon" is no duration`},
		"a word for a number":       {`"rate": 20,`, `"rate": "many",`, "rate cannot be a text"},
		"half a payout":             {`"executors": 6`, `"executors": 1.5`, "executors cannot be this number"},
		"a delay past the write":    {`"delay": "25ms"`, `"delay": "26ms"`, "at most half of prepare"},
		"everybody stopped":         {`"together": 2`, `"together": 6`, "nobody is left to take over"},
		"a number for a duration":   {`"drive": "30s"`, `"drive": 30`, `drive is no duration; write it like "250ms"`},
		"a window past the drive":   {`"for": "6s"`, `"for": "40s"`, "after the drive has ended"},
		"a schema of the future":    {`"schema": 1`, `"schema": 2`, "this version reads 1"},
		"no executors":              {`"executors": 6`, `"executors": 0`, "executors is 0"},
		"a rate that is no rate":    {`"rate": 20`, `"rate": -1`, "rate is -1"},
		"a step that never ends":    {`"for": "6s"`, `"for": "0s"`, `"for" must be positive`},
		"something after the plan":  {"", "{}", "no JSON at byte"},
		"a brace after the plan":    {"", "}", "no JSON at byte"},
		"steps of no nemesis":       {`"nemesis": "pause"`, `"nemesis": "none"`, "nemesis none has steps of another kind (pause)"},
		"steps of another nemesis":  {`"nemesis": "pause"`, `"nemesis": "kill,slow"`, "nemesis kill,slow has steps of another kind (pause)"},
		"holder without a trigger":  {`"on": "submitted.ok",`, ``, `needs a process as target`},
		"accounts in debt":          {`"rate": 20,`, `"rate": 20, "funds": -1,`, "funds is -1"},
		"accounts too rich":         {`"rate": 20,`, `"rate": 20, "funds": 1000000000000001,`, "0 for enough, or 1 to 1000000000000000"},
		"negative number of payout": {`"rate": 20,`, `"rate": 20, "payouts": -1,`, "payouts is -1"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.ReplaceAll(good, c.replace, c.with)
			if c.replace == "" {
				bad = good + c.with
			}
			if bad == good {
				t.Fatal("the case changes nothing")
			}
			_, err := Parse([]byte(bad))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

func TestARateThatIsNotANumberIsRefused(t *testing.T) {
	p := example(1)
	p.Rate = math.NaN()
	if _, err := Generate(p); err == nil {
		t.Error("NaN payouts per second were accepted")
	}
}

func TestOneExecutorAloneCannotBePaused(t *testing.T) {
	p := example(1)
	p.Executors = 1
	if _, err := Generate(p); err == nil || !strings.Contains(err.Error(), "at least 2") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseNeverPanics(f *testing.F) {
	f.Add([]byte(text(f, generate(f, example(7)))))
	f.Add([]byte(`{"schema":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := Parse(b); err == nil {
			if again, err := Parse([]byte(text(t, p))); err != nil || text(t, again) != text(t, p) {
				t.Errorf("an accepted plan does not read back: %v\n%s", err, bytes.TrimSpace(b))
			}
		}
	})
}

func TestNemesesThatCannotStandTogetherAreRefused(t *testing.T) {
	for nemesis, says := range map[string]string{
		"":             "nemesis \"\" is not known",
		"pause,none":   "nemesis none stands alone",
		"script,pause": "nemesis script stands alone",
		"pause,pause":  "nemesis pause stands there twice",
		"pause,":       "nemesis \"\" is not known",
		"pause,killl":  "nemesis \"killl\" is not known",
		"script":       "is written by hand",
	} {
		p := Plan{Workload: PayoutWorkload, Backend: BackendPG, Nemesis: nemesis, Executors: 3, Accounts: 4, Rate: 1, Drive: Duration(10 * time.Second)}
		if _, err := Generate(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", nemesis, err, says)
		}
	}
}

func TestOfTwoStepsThatHitOneTargetAtOnceTheSecondIsLeftOut(t *testing.T) {
	step := func(target Target, at, last time.Duration) Step {
		return Step{Fault: Pause, Target: target, At: Duration(at), For: Duration(last)}
	}
	steps := []Step{
		step("lockdb", 0, 3*time.Second), step("paydb", time.Second, time.Second),
		step("lockdb", 2*time.Second, time.Second),
		{Fault: Pause, Target: Holder, On: ClaimOK, At: Duration(2 * time.Second), For: Duration(time.Second)},
		step("lockdb", 3*time.Second, time.Second),
	}
	p := example(1)
	p.Steps = steps
	got := p.untangled()
	if want := slices.Delete(slices.Clone(steps), 2, 3); !reflect.DeepEqual(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}
