package executor

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"fenceproof/system/rail/stub"

	"github.com/prometheus/client_golang/prometheus"
)

func TestALongBacklogOfOneAccountDoesNotHideAnother(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{})
	for range pageSize + 1 {
		s.newPayout(s.account, 1)
	}
	other := s.newAccount()
	s.newPayout(other, 1)
	e := New(s.executorOptions("executor-1", &events{}))
	defer e.services.close()
	first, cursor := e.findWork(t.Context(), "")
	second, end := e.findWork(t.Context(), cursor)
	if !slices.Equal(first, []string{s.account}) || !slices.Contains(second, other) || end != "" {
		t.Errorf("the first look finds %v, the second %v, and then %q", first, second, end)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Errorf("not ready after a look that was answered: %v", err)
	}
}

func TestAnExecutorIsNotReadyWhilePaymentResourceDoesNotAnswer(t *testing.T) {
	noLeak(t)
	e := New(Options{OwnerID: "executor-1", PaymentResourceURL: "http://127.0.0.1:1", RailProxyURL: "http://127.0.0.1:1", Concurrency: 1,
		StepTimeout: time.Second, Poll: time.Second, Log: quiet, Registerer: prometheus.NewRegistry()})
	defer e.services.close()
	if e.Ready(t.Context()) == nil {
		t.Error("ready although nothing was looked for yet")
	}
	if found, cursor := e.findWork(t.Context(), "page 7"); len(found) != 0 || cursor != "" {
		t.Errorf("found %v, then %q; want nothing, and a look from the beginning", found, cursor)
	}
	if e.Ready(t.Context()) == nil {
		t.Error("ready although the look for work failed")
	}
}

func TestTheDeskHandsAnAccountOutOnceAndAfterAFailureNotAtOnce(t *testing.T) {
	d, now := newDesk(), time.Now()
	if !d.take("a", now) || d.take("a", now) {
		t.Error("an account is worked by one worker at a time")
	}
	d.put("a", time.Time{})
	if !d.take("a", now) {
		t.Error("an account that was put back can be taken")
	}
	d.put("a", now.Add(time.Hour))
	if d.take("a", now) || !d.take("a", now.Add(time.Hour)) {
		t.Error("an account is left alone until its time, and no longer")
	}
	d.put("a", time.Time{})
	d.put("b", now.Add(-time.Hour))
	d.put("c", now.Add(time.Hour))
	if _, kept := d.until["b"]; kept {
		t.Error("a time that has passed is kept for ever")
	}
}

func TestNoMetricLabelHoldsAKeyAnIDOrAToken(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{})
	payout := s.newPayout(s.account, 100)
	o := s.executorOptions("executor-1", &events{})
	o.Acquire = s.locks("executor-1", 60*time.Second)
	registry := o.Registerer.(*prometheus.Registry)
	s.start(o)
	s.eventually("the payout is paid", func() bool { return s.state(payout) == "POSTED" })
	families, err := registry.Gather()
	s.check(err)
	word := regexp.MustCompile(`^[a-z]+$`)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !word.MatchString(l.GetValue()) {
					t.Errorf("%s has label %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
	if len(families) == 0 {
		t.Error("there are no metrics")
	}
}
