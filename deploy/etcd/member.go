package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fenceproof/deploy/port"
	"fenceproof/deploy/process"
)

// The clockwork of a member: elections within a fifth of a second, so that a run meets many. The election timeout is
// also what etcd's smallest lease follows from, which with these settings is one second.
const (
	Heartbeat       = 20 * time.Millisecond
	ElectionTimeout = 200 * time.Millisecond
)

// Options say what the members of a cluster are like.
type Options struct {
	// Name is the name of a single member, such as "etcd"; those of a cluster are numbered: etcd-1 to etcd-n.
	Name string
	// Folder is where every member's own folder goes, by its name; it is made.
	Folder string
	// Log gives the file that the output of the member of that name is appended to; nil drops it.
	Log func(name string) string
	// Unsafe leaves out fsync. A killed process loses nothing by that, a machine without power does: for tests only.
	Unsafe bool
	// Launcher starts the server; process.Direct where nil.
	Launcher process.Launcher
	// Guard, where not nil, is told a member's folder before it is made, so that somebody else can Demolish it should we
	// not be able to.
	Guard func(folder string) error
	// PeerLink, where not nil, is asked for a hop for every ordered pair of members of a cluster; see PeerLink.
	PeerLink PeerLink
}

// Member is one etcd server with data and ports of its own. Its methods are for one goroutine at a time, but for those
// that only read.
type Member struct {
	name     string
	in       *Installation
	folder   string
	log      string
	unsafe   bool
	launcher process.Launcher
	client   *port.Reservation
	peer     *port.Reservation
	proc     process.Process

	advertised string   // the peer URL that the other members know
	cluster    []string // every member as name=URL, itself too
	env        []string
}

// newMember reserves the ports and makes the folder of a member.
func (in *Installation) newMember(name string, o Options) (*Member, error) {
	m := &Member{name: name, in: in, unsafe: o.Unsafe, launcher: o.Launcher, env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TZ=UTC"}}
	if m.launcher == nil {
		m.launcher = process.Direct{}
	}
	if o.Log != nil {
		m.log = o.Log(name)
	}
	var err error
	if m.folder, err = realPath(filepath.Join(o.Folder, name)); err != nil {
		return nil, fmt.Errorf("make the folder for %s: %w", name, err)
	}
	if m.client, err = port.Reserve(); err != nil {
		return nil, err
	}
	if m.peer, err = port.Reserve(); err != nil {
		return nil, errors.Join(err, m.client.Release())
	}
	if o.Guard != nil {
		err = o.Guard(m.folder)
	}
	if err == nil {
		err = os.Mkdir(m.folder, 0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create %s: %w", name, err), m.releasePorts())
	}
	return m, nil
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

// Name is the member's name.
func (m *Member) Name() string { return m.name }

// Folder is the member's own folder, and its server's working directory.
func (m *Member) Folder() string { return m.folder }

// DataFolder is etcd's data directory; it exists from the first start on.
func (m *Member) DataFolder() string { return filepath.Join(m.folder, "data") }

// Address is where it serves clients, host and port.
func (m *Member) Address() string { return m.client.Address() }

// URL is what a client of the member connects to.
func (m *Member) URL() string { return "http://" + m.Address() }

// PeerURL is the address by which the other members know it: its own, or in a cluster with links a name for it.
func (m *Member) PeerURL() string { return m.advertised }

func (m *Member) listenPeerURL() string { return "http://" + m.peer.Address() }

// command is the server's command line. Nothing is ever compacted unasked: a witness reads from the first revision.
func (m *Member) command() process.Command {
	args := []string{
		"--name=" + m.name,
		"--data-dir=" + m.DataFolder(),
		"--listen-client-urls=" + m.URL(),
		"--advertise-client-urls=" + m.URL(),
		"--listen-peer-urls=" + m.listenPeerURL(),
		"--initial-advertise-peer-urls=" + m.advertised,
		"--initial-cluster=" + strings.Join(m.cluster, ","),
		"--initial-cluster-state=new",
		"--heartbeat-interval=" + millis(Heartbeat),
		"--election-timeout=" + millis(ElectionTimeout),
		"--auto-compaction-retention=0",
		"--quota-backend-bytes=" + strconv.Itoa(quota),
		"--enable-grpc-gateway=false",
		"--logger=zap",
		"--log-level=info",
	}
	if m.unsafe {
		args = append(args, "--unsafe-no-fsync")
	}
	return process.Command{Path: m.in.Program("etcd"), Args: args, Env: m.env, Dir: m.folder, Log: m.log}
}

// quota bounds the data of a member, in bytes: the most that etcd recommends, since all revisions of a run are kept.
const quota = 8 << 30

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ReplaceData puts other data in the place of the member's, after Stop or Crash: make is given the path of a data
// directory that does not exist, and makes it. When it fails, everything stays as it was.
func (m *Member) ReplaceData(make func(dir string) error) error {
	if m.Running() {
		return fmt.Errorf("replace the data of %s: its server is still running", m.name)
	}
	fresh := m.DataFolder() + ".new"
	err := os.RemoveAll(fresh) // of an earlier failure
	if err == nil {
		err = make(fresh)
	}
	if err == nil {
		err = os.RemoveAll(m.DataFolder())
	}
	if err == nil {
		err = os.Rename(fresh, m.DataFolder())
	}
	if err != nil {
		return fmt.Errorf("replace the data of %s: %w", m.name, err)
	}
	return nil
}

// RestoreFlags are those that etcdutl snapshot restore needs to make this member's data.
func (m *Member) RestoreFlags() []string {
	return []string{"--name=" + m.name, "--initial-cluster=" + strings.Join(m.cluster, ","), "--initial-advertise-peer-urls=" + m.advertised}
}

// remove deletes the member's folder, after Stop or Crash.
func (m *Member) remove(ctx context.Context) error {
	if m.Running() {
		return fmt.Errorf("remove %s: its server is still running", m.name)
	}
	return errors.Join(Demolish(ctx, m.folder), m.releasePorts())
}

func (m *Member) releasePorts() error { return errors.Join(m.client.Release(), m.peer.Release()) }

// Demolish ends whatever etcd works in a member's folder, without asking it, and deletes the folder. It needs no Member:
// it is for those who clean up after a process that cannot do it any more. What does not exist is no error.
func Demolish(ctx context.Context, folder string) error {
	folder, err := filepath.EvalSymlinks(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find an etcd member's folder: %w", err)
	}
	pids, err := process.WorkingIn(folder, "etcd")
	if err != nil {
		return err
	}
	if err := process.KillAll(ctx, pids); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("delete an etcd member's folder: %w", err)
	}
	return nil
}
