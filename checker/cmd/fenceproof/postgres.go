package main

import (
	"os"
	"strings"
)

// forgetPostgres takes PostgreSQL's own variables out of the environment: what the user's shell says to psql (PGOPTIONS,
// PGSERVICE, PGTARGETSESSIONATTRS …) is not meant for the servers of a run. PG_BIN is ours.
func forgetPostgres() {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PG") && name != "PG_BIN" {
			_ = os.Unsetenv(name) // the name comes from the environment itself
		}
	}
}
