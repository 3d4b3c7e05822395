package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says which flag was probably meant, or what a flag takes.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if takes := taken(invalid.GetFlag().Value.Type()); takes != "" {
			return usage("--%s is %q; it takes %s", invalid.GetFlag().Name, invalid.GetValue(), takes)
		}
		return usage("--%s: %v", invalid.GetFlag().Name, invalid.Unwrap())
	}
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return usage("%v; %s -h tells what is", err, c.CommandPath())
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	meant, alike := contract.Nearest(name, names)
	if !alike {
		return usage("--%s is not a flag of %s; %[2]s -h lists them", name, c.CommandPath())
	}
	return usage("--%s is not a flag of %s; did you mean --%s?", name, c.CommandPath(), meant)
}

// taken is what a flag of a type takes, in people's words; "" where its own error says so.
func taken(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number, 0 to 18446744073709551615"
	case "float64":
		return "a number"
	case "duration":
		return "a duration such as 250ms, 1.5s or 10m"
	}
	return ""
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
	return fmt.Errorf("%q is not known%s", s, contract.Meant(s, c.names))
}

// choices are one or several of names with commas between them.
type choices struct {
	value *string
	names []string
}

func choicesVar(fs *pflag.FlagSet, v *string, name, def string, names []string, help string) {
	*v = def
	fs.Var(choices{v, names}, name, fmt.Sprintf("%s: %s, or several with commas between them", help, strings.Join(names, ", ")))
}

func (c choices) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c choices) Type() string { return "name[,name]" }

func (c choices) Set(s string) error {
	for _, name := range strings.Split(s, ",") {
		if !slices.Contains(c.names, name) {
			return fmt.Errorf("%q is not known%s", name, contract.Meant(name, c.names))
		}
	}
	*c.value = s
	return nil
}
