package model

import (
	"os"
	"strings"
	"testing"
)

// documented is the table in docs/model.md.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- ablation -->\n")
	table, _, ended := strings.Cut(rest, "<!-- end of ablation -->")
	if !found || !ended {
		t.Fatal("docs/model.md has no place for the table")
	}
	return strings.Split(strings.TrimSpace(table), "\n")
}

func TestTheTableInTheDocumentIsThatOfTheModel(t *testing.T) {
	variants := Ablation()
	if !*everyRow {
		variants = variants[:1+int(guardCount)] // the whole protocol, and every guard alone
	}
	punctual, err := Table(variants, Worlds(0)...)
	if err != nil {
		t.Fatal(err)
	}
	lines := documented(t)
	if want := 2 + len(Ablation()); len(lines) != want {
		t.Fatalf("the table has %d lines, want %d", len(lines), want)
	}
	for i, want := range strings.Split(strings.TrimSpace(Markdown(punctual, punctual)), "\n")[2:] {
		// Without late requests: the first three columns.
		if got := columns(lines[2+i], 3); got != columns(want, 3) {
			t.Errorf("the document says\n%s\nand the model\n%s", got, columns(want, 3))
		}
	}
	if !*everyRow {
		return
	}
	late, err := Table(variants, Worlds(1)...)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(lines, "\n"), strings.TrimSpace(Markdown(punctual, late)); got != want {
		t.Errorf("the document says\n%s\nand the model\n%s", got, want)
	}
}

// columns are the first n columns of a row.
func columns(row string, n int) string {
	return strings.Join(strings.SplitN(row, "|", n+2)[:n+1], "|")
}
