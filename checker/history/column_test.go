package history

import "testing"

func TestAColumnIsReadAsPostgreSQLWritesIt(t *testing.T) {
	for column, want := range map[string]int64{"42": 42, "-7": -7, "9223372036854775807": 1<<63 - 1, "": 0, "9223372036854775808": 0, "many": 0} {
		if got := Int(column); got != want {
			t.Errorf("%q is %d, want %d", column, got, want)
		}
	}
	const second = 1_767_322_800_000_000 // 2026-01-02 03:00:00 UTC
	for column, want := range map[string]int64{
		"2026-01-02 03:00:00+00":        second,
		"2026-01-02 03:00:00.25+00":     second + 250_000,
		"2026-01-02 03:00:00.000001+00": second + 1,
		"2026-01-02 04:00:00+01":        second,
		"infinity":                      0,
		"":                              0,
	} {
		if got := Micros(column); got != want {
			t.Errorf("%q is %d, want %d", column, got, want)
		}
	}
}
