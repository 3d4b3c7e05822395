// Package migrations embeds the schema history of each database. A landed file is never edited: a mistake is corrected
// by the next one (C1 1.8).
package migrations

import "embed"

// LockDB and PayDB are the histories of lockdb and paydb, in the folders of these names.
var (
	//go:embed lockdb/*.sql
	LockDB embed.FS
	//go:embed paydb/*.sql
	PayDB embed.FS
)
