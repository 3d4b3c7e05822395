package main

import (
	"fmt"
	"strings"

	"fenceproof/checker/contract"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError names the flag that was probably meant.
func flagError(c *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return usage("%v; %s -h tells what is", err, c.CommandPath())
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return usage("--%s is not a flag of %s; did you mean --%s?", name, c.CommandPath(), contract.Nearest(name, names))
}

// choice is a flag that takes one of a few words.
type choice[S ~string] struct {
	value *S
	names []S
}

func choiceVar[S ~string](fs *pflag.FlagSet, v *S, name string, def S, names []S, help string) {
	*v = def
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	fs.Var(choice[S]{v, names}, name, fmt.Sprintf("%s: %s", help, strings.Join(words, ", ")))
}

func (c choice[S]) String() string {
	if c.value == nil {
		return ""
	}
	return string(*c.value)
}

func (c choice[S]) Type() string { return "name" }

func (c choice[S]) Set(s string) error {
	for _, n := range c.names {
		if string(n) == s {
			*c.value = n
			return nil
		}
	}
	return fmt.Errorf("%q is not known; did you mean %q?", s, contract.Nearest(s, c.names))
}
