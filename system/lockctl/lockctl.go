// Package lockctl is the operator's command: it looks at the lock, frees a key by force, gives a payout up, and keeps a
// restored lock store from handing out tokens twice. It acts only for an operator with a reason, and asks before it does.
package lockctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"fenceproof/system/config"
	"fenceproof/system/lockctl/guard"
	"fenceproof/system/wire"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit statuses.
const (
	Done      = 0 // what was asked for is done, or was shown
	Unchanged = 1 // it was not done and nothing was changed: refused, declined, or never sent
	Usage     = 2 // wrong usage or configuration; nothing was sent
	Unknown   = 3 // it is not known whether it was done, as the answer did not come; or it was done and could not be shown
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// exit ends a command with a status. Its error's text is for people.
type exit struct {
	status int
	err    error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error  { return &exit{Usage, fmt.Errorf(format, args...)} }
func refuse(format string, args ...any) error { return &exit{Unchanged, fmt.Errorf(format, args...)} }

// unknown says what may have happened and how to find out.
func unknown(err error, format string, args ...any) error {
	return &exit{Unknown, fmt.Errorf("%s\n%w", fmt.Sprintf(format, args...), err)}
}

// command is one run of lockctl.
type command struct {
	Streams
	environ []string
	config  config.LockCtl
	json    bool
	yes     bool
}

// Run runs lockctl with args (without the program's name) in the environment environ and returns the exit status.
func Run(ctx context.Context, args, environ []string, streams Streams) int {
	c := &command{Streams: streams, environ: environ}
	root := c.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return Done
	}
	fmt.Fprintf(c.Err, "lockctl: %v\n", err)
	return status(err)
}

// status is what an error means for whoever calls lockctl from a script.
func status(err error) int {
	var e *exit
	var lost *guard.UnknownError
	switch {
	case errors.As(err, &e):
		return e.status
	case errors.As(err, &lost):
		return Unknown
	}
	return Unchanged
}

const about = `lockctl looks at the lock, frees a key by force, gives a payout up, and keeps a restored lock store from handing out
tokens a second time. What changes something needs --operator and --reason, and asks first unless --yes is given.

A token is a JSON number in --json, as it is on the wire: read it with 64 bits.

Exit status: 0 done, 1 refused and nothing was changed, 2 wrong usage or configuration, 3 it is not known whether it was done,
or it was done and could not be shown: the message says which.`

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use: "lockctl", Short: "The operator's command of the lock.", Long: about,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              knownCommand,
		PersistentPreRunE: func(x *cobra.Command, _ []string) error { return c.configure(x) },
		RunE:              func(x *cobra.Command, _ []string) error { return x.Help() },
	}
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpTemplate(root.HelpTemplate() + "\nEnvironment, which flags override:\n" + variables())
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON for machines")
	root.AddCommand(c.inspect(), c.list(), c.sessions(), c.revoke(), c.abandon(), c.restoreGuard())
	return root
}

func variables() string {
	var b bytes.Buffer
	config.Usage[config.LockCtl](&b)
	return b.String()
}

// knownCommand names the command that was probably meant.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, x := range root.Commands() {
		names = append(names, x.Name())
	}
	return usage("%q is not a command; did you mean %q?", args[0], config.Nearest(args[0], names))
}

func flagError(x *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return usage("%w; %s -h tells what is", err, x.CommandPath())
	}
	var names []string
	x.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return usage("--%s is not a flag of %s; did you mean --%s?", name, x.CommandPath(), config.Nearest(name, names))
}

// takes demands the arguments that names tell.
func takes(names ...string) cobra.PositionalArgs {
	return func(x *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usage("%s takes %s and was given %d arguments; %s -h tells more", x.CommandPath(), orNone(strings.Join(names, " ")), len(args), x.CommandPath())
		}
		return nil
	}
}

func orNone(s string) string {
	if s == "" {
		return "no arguments"
	}
	return s
}

// overrides is the annotation of a flag that stands for a variable.
const overrides = "overrides"

// override gives x a flag that stands for a variable.
func (c *command) override(x *cobra.Command, flag, variable, help string) {
	x.Flags().String(flag, "", fmt.Sprintf("%s (%s)", help, variable))
	x.Flags().Lookup(flag).Annotations = map[string][]string{overrides: {variable}}
}

// configure reads the environment, with the flags that x was given in their variables' places.
func (c *command) configure(x *cobra.Command) (err error) {
	environ := slices.Clone(c.environ)
	x.Flags().Visit(func(f *pflag.Flag) {
		for _, variable := range f.Annotations[overrides] {
			environ = append(environ, variable+"="+f.Value.String())
		}
	})
	if c.config, err = config.Parse[config.LockCtl](environ); err != nil {
		return usage("the configuration is wrong:\n%w\nlockctl -h prints all variables", err)
	}
	return nil
}

// terminal tells whether somebody is there to be asked.
func (c *command) terminal() bool {
	f, ok := c.In.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// answered tells whether err is an answer of the system about the request, which then had no effect.
func answered(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Status < 500
}
