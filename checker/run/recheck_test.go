package run

import (
	"encoding/json"
	"strings"
	"testing"

	"fenceproof/checker/history"
)

func TestAHeaderWhosePlanIsNotThatOfItsSettingsIsRefused(t *testing.T) {
	const config = `{"settings":{"workload":"payout","backend":"pg","nemesis":"pause","fencing":"on","seed":"7","drive":30000000000}}`
	for plan, want := range map[string]string{
		`{"workload":"payout","backend":"pg","nemesis":"pause","seed":7,"drive":"30s"}`: "",
		`{"steps":[]}`: "", // of somebody who plans otherwise
		``:             "",
		`{"workload":"lock","backend":"pg","nemesis":"pause","seed":7,"drive":"30s"}`:     "workload",
		`{"workload":"payout","backend":"etcd","nemesis":"pause","seed":7,"drive":"30s"}`: "backend",
		`{"workload":"payout","backend":"pg","nemesis":"none","seed":7,"drive":"30s"}`:    "nemesis",
		`{"workload":"payout","backend":"pg","nemesis":"pause","seed":8,"drive":"30s"}`:   "seed",
		`{"workload":"payout","backend":"pg","nemesis":"pause","seed":7,"drive":"bogus"}`: "drive",
		`{"workload":"payout","backend":"pg","nemesis":"pause","seed":7,"drive":"10s"}`:   "drive",
	} {
		_, err := ReadRecorded(history.Header{Seed: 7, Plan: json.RawMessage(plan), Config: json.RawMessage(config)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "another "+want+" each")) {
			t.Errorf("%s: %v, want %q", plan, err, want)
		}
	}
}
