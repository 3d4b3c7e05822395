package postgres

import _ "embed" // the statements

//go:embed sql/role_exists.sql
var roleExists string
