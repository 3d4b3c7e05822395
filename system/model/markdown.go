package model

import (
	"fmt"
	"strings"
)

// Markdown is the ablation table: what falls while no request is late, and what falls besides when some may be. Both
// tables have the same variants in the same order.
func Markdown(punctual, late []Row) string {
	var b strings.Builder
	b.WriteString("| without | states | falls | states, one request late or doubled | falls besides |\n|---|---:|---|---:|---|\n")
	for i, p := range punctual {
		fmt.Fprintf(&b, "| %v | %d | %s | %d | %s |\n", p.Variant, p.States, falls(p.Found), late[i].States, falls(late[i].Found&^p.Found))
	}
	return b.String()
}

// falls lists violations by invariant.
func falls(vs Violations) string {
	var ids []string
	by := map[string][]string{}
	for _, v := range vs.List() {
		id := v.Invariant()
		if by[id] == nil {
			ids = append(ids, id)
		}
		by[id] = append(by[id], v.String())
	}
	if ids == nil {
		return "nothing"
	}
	for i, id := range ids {
		ids[i] = id + " " + strings.Join(by[id], ", ")
	}
	return strings.Join(ids, "; ")
}

// Stories tells the shortest schedule to every violation of a row.
func (r Row) Stories() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", r.Variant)
	for _, v := range r.Found.List() {
		fmt.Fprintf(&b, "  %s %v:\n", v.Invariant(), v)
		for _, s := range r.Schedules[v] {
			fmt.Fprintf(&b, "    %v\n", s)
		}
	}
	return b.String()
}
