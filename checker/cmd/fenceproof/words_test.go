package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/spf13/pflag"
)

func TestTheCommandThatDoesARunAgainLeavesNothingOut(t *testing.T) {
	file := "../../../docs/experiment/plan.json"
	for _, c := range []struct {
		given []string
		want  string
	}{
		{[]string{"--nemesis", "pause", "--seed", "7", "--duration", "12s", "--rate", "2.5"},
			"bin/fenceproof verify --nemesis pause --seed 7 --duration 12s --rate 2.5 --fencing on"},
		{[]string{"--seed", "7", "--fencing", "rail-off", "--expect", "INV-02,INV-03?"},
			"bin/fenceproof verify --nemesis pause --seed 7 --fencing rail-off --expect 'INV-02,INV-03?'"},
		{[]string{"--seed", "7", "--declines", "0", "--lookup-lag", "0s"},
			"bin/fenceproof verify --nemesis pause --seed 7 --declines 0 --lookup-lag 0s --fencing on"},
		{[]string{"--seed", "7", "--fencing", "off", "--lost-replies", "0.03"},
			"bin/fenceproof verify --nemesis pause --seed 7 --lost-replies 0.03 --fencing off"},
		{[]string{"--backend", "etcd", "--etcd-members", "3", "--seed", "7"},
			"bin/fenceproof verify --backend etcd --etcd-members 3 --nemesis pause --seed 7 --fencing on"},
		{[]string{"--workload", "lock", "--nemesis", "restore", "--seed", "7", "--lapses", "0.02"}, "bin/fenceproof verify --workload lock --nemesis restore --seed 7 --lapses 0.02"},
		{[]string{"--workload", "lock", "--nemesis", "restore", "--seed", "7"}, "bin/fenceproof verify --workload lock --nemesis restore --seed 7"},
		{[]string{"--plan", file, "--fencing", "off", "--control"}, "bin/fenceproof verify --plan " + file + " --fencing off --control"},
		{[]string{"--plan", file, "--executors", "5", "--seed", "9"},
			"bin/fenceproof verify --plan " + file + " --executors 5 --seed 9 --fencing on"},
	} {
		var f verifyFlags
		fs := pflag.NewFlagSet("verify", pflag.ContinueOnError)
		f.declare(fs)
		if err := fs.Parse(c.given); err != nil {
			t.Fatal(err)
		}
		p, err := f.plan(fs)
		if err != nil {
			t.Errorf("%v: %v", c.given, err)
			continue
		}
		if got := f.again(p, fs); got != c.want {
			t.Errorf("%v is done again by\n%s\nwant\n%s", c.given, got, c.want)
		}
	}
}

func TestAWordForTheShellStaysOneWord(t *testing.T) {
	for s, want := range map[string]string{"plan.json": "plan.json", "": "''", "my plan.json": "'my plan.json'", "it's": `'it'\''s'`, "INV-03?": "'INV-03?'"} {
		if got := quoted(s); got != want {
			t.Errorf("%q is quoted as %s, want %s", s, got, want)
		}
	}
}

func TestWhatEvidenceSaysCannotSteerTheTerminal(t *testing.T) {
	var out bytes.Buffer
	if _, err := fmt.Fprint(harmless{&out}, "one\ttwo\n\x1b[2Jthree\r\u009b31m\u202efour→é"); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "one\ttwo\n\ufffd[2Jthree\ufffd\ufffd31m\ufffdfour→é"; got != want {
		t.Errorf("%q came out as %q", want, got)
	}
}
