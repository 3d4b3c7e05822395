package main

import (
	"os"
	"testing"
)

func TestWhatTheShellSaysToPsqlIsNotMeantForTheServersOfARun(t *testing.T) {
	for name, kept := range map[string]bool{"PGOPTIONS": false, "PGSERVICE": false, "PGTARGETSESSIONATTRS": false, "PG_BIN": true, "PATHS": true} {
		t.Setenv(name, "x")
		forgetPostgres()
		if _, there := os.LookupEnv(name); there != kept {
			t.Errorf("%s is there: %v, want %v", name, there, kept)
		}
	}
}
