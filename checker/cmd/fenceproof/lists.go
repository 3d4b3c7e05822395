package main

import (
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/soak"

	"github.com/spf13/pflag"
)

// list is a flag that takes several of a few words, with commas between them.
type list struct {
	value *[]string
	names []string
	mixes bool // an element may be several words with a + between them
}

func listVar(fs *pflag.FlagSet, v *[]string, name string, def, names []string, help string, mixes bool) {
	*v = def
	fs.Var(list{v, names, mixes}, name, fmt.Sprintf("%s: %s", help, strings.Join(names, ", ")))
}

func (l list) String() string {
	if l.value == nil {
		return ""
	}
	return strings.Join(*l.value, ",")
}

func (l list) Type() string { return "name[,name]" }

func (l list) Set(s string) error {
	var all []string
	for element := range strings.SplitSeq(s, ",") {
		parts := []string{element}
		if l.mixes {
			parts = strings.Split(element, "+")
		}
		for _, name := range parts {
			if !slices.Contains(l.names, name) {
				return fmt.Errorf("%q is not known%s", name, contract.Meant(name, l.names))
			}
		}
		if slices.ContainsFunc(all, func(n string) bool { return soak.SameMix(n, element) }) {
			return fmt.Errorf("%q stands there twice", element)
		}
		all = append(all, element)
	}
	*l.value = all
	return nil
}
