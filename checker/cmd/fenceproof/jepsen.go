package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fenceproof/checker/jepsen"
	"fenceproof/checker/run"

	"github.com/spf13/cobra"
)

// defaultLock is the name of the lock where a history names none.
const defaultLock = "lock"

func importCommand() *cobra.Command {
	var into string
	var o jepsen.ImportOptions
	c := &cobra.Command{
		Use:   "import HISTORY.edn --into FOLDER",
		Short: "Take a history of a lock that Jepsen recorded, to judge it with recheck",
		Long: `Import reads the history.edn of a Jepsen test of a lock (- is standard input) and writes it into FOLDER/history in the
format of docs/history.md; fenceproof recheck FOLDER judges it. The operations are :acquire and :release (also :lock, :try-lock,
:unlock), :renew and :revoke, as maps one after the other, in one vector, or as records (#jepsen.history.Op{…}).

  {:index 0, :type :invoke, :process 0, :f :acquire, :value nil, :time 3291485}
  {:index 1, :type :ok, :process 0, :f :acquire, :value {:client "c1", :fence 42}, :time 3296209}

The lock is named by [key value], by :key or :lock, or with --value-is-key by an invocation's value; otherwise there is one.
A holder is a :session or :client where the history names them, else the process. :fence or :token is the fencing token, a whole
number from 1; without one, only who holds the lock is judged, and a grant with another one is refused. A release that failed because its lease was gone (:error :not-held, :not-lock-owner,
:lease-not-found, …) means that the lock is no longer held. What ended in :info stays open: it may have happened, or not.

A lock without --ttl is held until it is given back, as Jepsen's mutex is. With --ttl 2s a holder may lose it two seconds after
it asked for it or renewed it; that takes a :time in every operation. Its holder is not granted it again, unless --reentrant says
that it may be; a lock that must be given back as often as it was taken is not known. A semaphore's :acquire is taken for a
lock's, an :ok whose :value is false for a grant: what is neither has no place in the history. Only LIN-01 can be judged by what clients were told, and is: everything
else is "not exercised", so the exit status of recheck is 1 where something is wrong, and 2 where nothing is.`,
		Example: `  fenceproof import store/etcd/latest/history.edn --into runs/jepsen
  fenceproof recheck runs/jepsen`,
		Args: oneArg("the history to read, for example store/latest/history.edn, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case into == "":
				return usage("name the folder to write to: --into FOLDER")
			case o.Lock == "":
				return usage("--lock is empty; name the lock, for example --lock %s", defaultLock)
			case o.TTL < 0 || o.TTL%time.Millisecond != 0:
				return usage("--ttl is %s; a lease lasts whole milliseconds, or without a flag until it is given back", o.TTL)
			}
			if err := folder("--into", into); err != nil {
				return err
			}
			return importFrom(c, args[0], into, o)
		},
	}
	c.Flags().StringVar(&into, "into", "", "the run's folder to make the history in; it must have none yet")
	c.Flags().DurationVar(&o.TTL, "ttl", 0, "how long a lease lasts that is not renewed, for example 2s (without: until it is given back)")
	c.Flags().BoolVar(&o.ValueIsKey, "value-is-key", false, "the value of an invocation names the lock")
	c.Flags().BoolVar(&o.Reentrant, "reentrant", false, "a holder may be granted the lock again before it has given it back, and gives it back once")
	c.Flags().StringVar(&o.Lock, "lock", defaultLock, "name of the lock where the history names none")
	return c
}

func importFrom(c *cobra.Command, file, into string, o jepsen.ImportOptions) error {
	in, name := c.InOrStdin(), "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return usage("open the history: %v", err)
		}
		defer f.Close()
		in, name = f, file
	}
	o.Name = strings.TrimSuffix(filepath.Base(name), ".edn")
	o.Command = importAgain(file, into, o)
	made, err := jepsen.Import(in, into, o)
	var malformed *jepsen.Error
	switch {
	case errors.As(err, &malformed):
		return usage("%s: %v", name, err)
	case errors.Is(err, jepsen.ErrThere):
		return usage("%v", err)
	case err != nil:
		return &exitError{exitHarness, err}
	}
	out := harmless{c.OutOrStdout()}
	said := fmt.Sprintf("imported %s on %s, %d of them without a definite end; %s a fencing token\n", counted(made.Calls, "call", "calls"),
		counted(int64(made.Keys), "lock", "locks"), made.Open, counted(made.Tokens, "grant has", "grants have"))
	if made.Names > 0 && !o.ValueIsKey {
		said += counted(made.Names, "invocation has", "invocations have") + " a value that was not taken for the name of a lock; if it is one, import again with --value-is-key\n"
	}
	for _, what := range slices.Sorted(maps.Keys(made.PassedOver)) {
		said += fmt.Sprintf("passed over %d of %s\n", made.PassedOver[what], what)
	}
	if _, err := io.WriteString(out, said+fmt.Sprintf("judge it: fenceproof recheck %s\n", into)); err != nil {
		return &exitError{exitHarness, err}
	}
	return nil
}

// counted is n with one, or with many where it is not one.
func counted(n int64, one, many string) string {
	if n != 1 {
		one = many
	}
	return fmt.Sprintf("%d %s", n, one)
}

// importAgain is the command that imports the same again.
func importAgain(file, into string, o jepsen.ImportOptions) string {
	again := fmt.Sprintf("fenceproof import %s --into %s", quoted(file), quoted(into))
	if o.TTL > 0 {
		again += " --ttl " + o.TTL.String()
	}
	if o.ValueIsKey {
		again += " --value-is-key"
	}
	if o.Reentrant {
		again += " --reentrant"
	}
	if o.Lock != defaultLock {
		again += " --lock " + quoted(o.Lock)
	}
	return again
}

func exportCommand() *cobra.Command {
	var o jepsen.ExportOptions
	var into string
	c := &cobra.Command{
		Use:   "export RUN",
		Short: "Write what a run's clients asked of its lock as a history of Jepsen's",
		Long: `Export writes the calls on the lock that the run's wiretap saw as EDN, one operation a line, the way Jepsen's tests of
fenced locks write them: {:type :ok, :process 3, :f :acquire, :value ["key" {:client "session", :fence 42}], …}. A call that
nobody answered ends in :info, and its process does nothing more. With --key only that lock is written, and values stand
alone. Besides :acquire, :release, :renew and :revoke there are :open-session, :heartbeat and :close-session, which
Jepsen's models do not know: a session's end ends its grants. fenceproof import takes it all back, with --reentrant where a
session was granted a key again that it had.`,
		Example: `  fenceproof export runs/latest --out history.edn`,
		Args:    oneArg("the run's folder, for example runs/latest"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := recorded(args[0]); err != nil {
				return err
			}
			return exportTo(c, args[0], into, o)
		},
	}
	c.Flags().StringVarP(&into, "out", "o", "-", "file to write, which must not be there yet; - is standard output")
	c.Flags().StringVar(&o.Key, "key", "", "write of this lock only")
	return c
}

func exportTo(c *cobra.Command, dir, into string, o jepsen.ExportOptions) error {
	made, err := exportInto(c.OutOrStdout(), dir, into, o)
	var refused *exitError
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, jepsen.ErrNotWhole), errors.Is(err, jepsen.ErrNoCalls):
		return usage("export %s: %v", dir, err)
	case err != nil:
		return &exitError{exitHarness, err}
	}
	_, err = fmt.Fprintf(c.ErrOrStderr(), "exported %s of %s, %d of them without a definite end\n",
		counted(made.Operations, "operation", "operations"), counted(made.Calls, "call", "calls"), made.Open)
	return err
}

// exportInto exports to out, or into a file that is made for it and removed again unless all of it could be written.
func exportInto(out io.Writer, dir, into string, o jepsen.ExportOptions) (made jepsen.Exported, err error) {
	if into == "-" {
		return jepsen.Export(run.HistoryDir(dir), out, o)
	}
	f, err := os.OpenFile(into, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return made, usage("%s is there already, and it stays: name another file", into)
	}
	if err != nil {
		return made, usage("create the file to export to: %v", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(into))
		}
	}()
	return jepsen.Export(run.HistoryDir(dir), f, o)
}
