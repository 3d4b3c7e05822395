package lockctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode"
	"unicode/utf8"

	"fenceproof/system/wire"

	"github.com/spf13/cobra"
)

// deed is a command that changes something: somebody answers for it, and has a reason.
type deed struct {
	operator, reason string
}

func (c *command) deed(x *cobra.Command) *deed {
	d := &deed{}
	x.Flags().StringVar(&d.operator, "operator", "", "who does it; required")
	x.Flags().StringVar(&d.reason, "reason", "", "why, in 8 characters or more; required, and kept")
	x.Flags().BoolVar(&c.yes, "yes", false, "do it without asking")
	return d
}

// check refuses a deed that could not be done anyhow, before anybody is asked.
func (c *command) check(d *deed) error {
	if err := spoken("--operator", d.operator, 1, wire.MaxOperatorBytes); err != nil {
		return err
	}
	if err := spoken("--reason", d.reason, wire.MinReasonCharacters, wire.MaxReasonBytes); err != nil {
		return err
	}
	if !c.yes && !c.terminal() {
		return usage("standard input is no terminal, so nobody can be asked: give --yes to do it without")
	}
	return nil
}

func spoken(flag, s string, least, most int) error {
	switch n := utf8.RuneCountInString(strings.TrimSpace(s)); {
	case s == "":
		return usage("%s is missing: nothing is done without somebody who answers for it and a reason", flag)
	case n < least:
		return usage("%s has %d characters and needs at least %d", flag, n, least)
	case len(s) > most:
		return usage("%s has %d bytes and may have %d", flag, len(s), most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return usage("%s must be UTF-8 without control characters", flag)
	}
	return nil
}

// ask has the operator confirm what is about to be done. It ends the command unless the answer is yes.
func (c *command) ask(ctx context.Context, format string, args ...any) error {
	if c.yes {
		return nil
	}
	fmt.Fprintf(c.Err, format+" [y/N] ", args...)
	typed := make(chan string, 1)
	go func() { // ends with the line, or with the terminal, or with the process: nothing else ends a read of a terminal
		line, _ := bufio.NewReader(c.In).ReadString('\n') // what came before an error is what was typed
		typed <- line
	}()
	line := ""
	select {
	case line = <-typed:
	case <-ctx.Done():
	}
	if !strings.HasSuffix(line, "\n") {
		fmt.Fprintln(c.Err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return refuse("not confirmed: nothing was changed")
}

// neverSent tells whether err means that the request cannot have reached anybody.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
