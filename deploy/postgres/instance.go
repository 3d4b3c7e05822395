package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"fenceproof/deploy/port"
	"fenceproof/deploy/process"
)

// Options say what an instance is like.
type Options struct {
	// Name is a word for messages, such as "lockdb".
	Name string
	// Folder is where the data directory goes; it is made. When the server's user cannot reach it, the data goes to the
	// cache folder instead, Progress says so, and Folder becomes a symbolic link to it.
	Folder string
	// Log is the file that the server's output is appended to; empty drops it.
	Log string
	// Settings are configuration parameters beyond, or instead of, the usual ones.
	Settings map[string]string
	// Launcher starts the server; process.Direct where nil.
	Launcher process.Launcher
	// Guard, where not nil, is told Folder's full path before that is made, so that somebody else can Demolish it should
	// we not be able to.
	Guard func(folder string) error
	// Volume, where not nil, is what the data directory is put on.
	Volume *Volume
	// Progress hears what was decided; it may be nil.
	Progress func(string)
}

// Instance is one PostgreSQL server with a data directory and a port of its own. Its methods are for one goroutine at a
// time, but for those that only read.
type Instance struct {
	name     string
	in       *Installation
	folder   string // as it was wanted: data itself, or a link to it
	data     string
	log      string
	port     *port.Reservation
	settings map[string]string
	launcher process.Launcher
	proc     process.Process
	volume   *volume // nil where the data is on the disk
	hadPort  bool    // the server has run on this port: clients know it, so it is kept
}

// settings are those of every instance. Durability stays as PostgreSQL has it, on: what the suite kills must be able
// to come back. The rest is for logical decoding, for many connections, and against shared memory that outlives a
// server which was killed.
var settings = map[string]string{
	"listen_addresses":                "127.0.0.1",
	"unix_socket_directories":         "",
	"fsync":                           "on",
	"synchronous_commit":              "on",
	"full_page_writes":                "on",
	"wal_level":                       "logical",
	"max_wal_senders":                 "10",
	"max_replication_slots":           "10",
	"wal_sender_timeout":              "0",    // a paused server must not drop its witness when it resumes
	"wal_retrieve_retry_interval":     "50ms", // a standby that lost its primary looks for it soon
	"max_connections":                 "200",
	"shared_buffers":                  "64MB",
	"huge_pages":                      "off",
	"dynamic_shared_memory_type":      "mmap",
	"jit":                             "off",
	"max_parallel_workers_per_gather": "0",
	"max_logical_replication_workers": "0",
	"timezone":                        "UTC",
	"log_timezone":                    "UTC",
	"log_line_prefix":                 "%m [%p] %q%u@%d ",
	"log_statement":                   "none",
	"password_encryption":             "scram-sha-256",
}

// Create copies the initialised data directory for a new instance. It is started by Start, and whoever creates it
// removes it by Remove.
func (in *Installation) Create(o Options) (*Instance, error) {
	return in.create(o, func(i *Instance) error { return in.account.copyTree(i.view(), in.template) })
}

// create makes an instance whose data directory fill makes.
func (in *Installation) create(o Options, fill func(*Instance) error) (*Instance, error) {
	i := &Instance{name: o.Name, in: in, log: o.Log, launcher: o.Launcher, settings: maps.Clone(settings)}
	if o.Volume != nil {
		maps.Copy(i.settings, volumeSettings)
	}
	maps.Copy(i.settings, o.Settings)
	if i.launcher == nil {
		i.launcher = process.Direct{}
	}
	if err := in.place(i, o); err != nil {
		return nil, err
	}
	var err error
	if i.port, err = port.Reserve(); err != nil {
		return nil, err
	}
	if o.Guard != nil {
		err = o.Guard(i.folder)
	}
	if err == nil && i.folder != i.data {
		err = os.Symlink(i.data, i.folder)
	}
	if err == nil {
		err = i.mountVolume(o.Volume)
	}
	if err == nil {
		err = fill(i)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create %s: %w", o.Name, err), i.Remove())
	}
	return i, nil
}

// place decides where the data goes and makes the folder that it goes into.
func (in *Installation) place(i *Instance, o Options) error {
	var err error
	if i.folder, err = realPath(o.Folder); err != nil {
		return fmt.Errorf("make the folder for %s: %w", o.Name, err)
	}
	if i.data = i.folder; in.account.reaches(filepath.Dir(i.folder)) {
		return nil
	}
	if i.data, err = realPath(filepath.Join(in.cache, "data", fmt.Sprintf("%s-%d-%08x", o.Name, os.Getpid(), rand.Uint32()))); err != nil {
		return fmt.Errorf("make the folder for %s: %w", o.Name, err)
	}
	if o.Progress != nil {
		o.Progress(fmt.Sprintf("user %s, as which PostgreSQL runs, cannot enter %s; the data of %s is in %s", in.account.name, filepath.Dir(i.folder), o.Name, i.data))
	}
	return nil
}

// realPath makes the folder that path is in, and gives path free of links, as processes that work there show it.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(path)), nil
}

// Name is the word for the instance in messages.
func (i *Instance) Name() string { return i.name }

// Folder is where the data directory was wanted: it is there, or a link to it is.
func (i *Instance) Folder() string { return i.folder }

// DataFolder is the data directory's real path.
func (i *Instance) DataFolder() string { return i.data }

// Port is where the server listens on 127.0.0.1.
func (i *Instance) Port() int { return i.port.Number }

// Address is host and port.
func (i *Instance) Address() string { return i.port.Address() }

// URL is what a client of the server connects to.
func (i *Instance) URL(user, database string) string { return URL(i.Address(), user, database) }

// URL is the address of a database behind any host and port, such as those of a link.
func URL(address, user, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: address, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// SuperURL connects as the superuser.
func (i *Instance) SuperURL(database string) string { return i.URL(superuser, database) }

// command is the server's command line; settings are sorted so that it is the same each time.
func (i *Instance) command() process.Command {
	args := []string{"-D", i.data, "-p", strconv.Itoa(i.Port())}
	for _, k := range slices.Sorted(maps.Keys(i.settings)) {
		args = append(args, "-c", k+"="+i.settings[k])
	}
	return process.Command{Path: i.in.programs.path("postgres"), Args: args, Env: environment, Dir: i.data, Log: i.log, User: i.in.user()}
}

// Remove deletes the data directory, after Stop or Crash. It takes away as well what a killed server left in the
// machine's memory.
func (i *Instance) Remove() error {
	if i.Running() {
		return fmt.Errorf("remove %s: its server is still running", i.name)
	}
	var errs []error
	if i.volume != nil { // from here it can be seen in one way only, and it goes with its folder
		errs = append(errs, removeSharedMemory(i.view()), i.volume.dir.Close())
		i.volume = nil
	}
	return errors.Join(append(errs, Demolish(context.Background(), i.folder), i.port.Release())...)
}
