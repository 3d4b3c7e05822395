// Package config reads the configuration of every process from its environment, and from nothing else. One rule makes a
// variable of a key: upper-case it, turn dots to "_", drop hyphens (rail.proxy.stub-url is RAIL_PROXY_STUBURL).
//
// All processes' variables stand here together because each of them refuses a variable that none of them knows: a
// mistyped RAIL_PROXY_FENCING_ENABLD must stop the process, not leave the default in force.
package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"
)

// LockServer is the configuration of lock-server.
type LockServer struct {
	Listen        string        `env:"LOCK_SERVER_LISTEN" envDefault:"127.0.0.1:8081" help:"address of the lock API"`
	AdminListen   string        `env:"LOCK_SERVER_ADMINLISTEN" envDefault:"127.0.0.1:9081" help:"private address of health, readiness and metrics"`
	Backend       string        `env:"LOCK_BACKEND" envDefault:"pg" help:"lock backend: pg or etcd"`
	DatasourceURL string        `env:"LOCK_DATASOURCE_URL" envDefault:"postgres://lockapp@127.0.0.1:5432/lockdb" help:"lockdb, for the pg backend"`
	EtcdEndpoints []string      `env:"ETCD_ENDPOINTS" envSeparator:"," help:"etcd's members, comma-separated, for the etcd backend; required there"`
	DefaultTTL    time.Duration `env:"LOCK_DEFAULT_TTL" envDefault:"30s" help:"lease of an acquire that names none"`
	SessionTTL    time.Duration `env:"LOCK_SESSION_TTL" envDefault:"15s" help:"lease of a session that names none"`
	MaxWaiters    int           `env:"LOCK_MAXWAITERS" envDefault:"1000" help:"waiters a key may have before CONTENTION_EXCEEDED"`
}

// PaymentResource is the configuration of payment-resource.
type PaymentResource struct {
	Listen         string `env:"PAYMENT_RESOURCE_LISTEN" envDefault:"127.0.0.1:8082" help:"address of the payout API"`
	AdminListen    string `env:"PAYMENT_RESOURCE_ADMINLISTEN" envDefault:"127.0.0.1:9082" help:"private address of health, readiness, metrics and PUT /fencing"`
	DatasourceURL  string `env:"PAYMENTS_DATASOURCE_URL" envDefault:"postgres://payapp@127.0.0.1:5433/paydb" help:"paydb"`
	FencingEnabled bool   `env:"PAYMENT_FENCING_ENABLED" envDefault:"true" help:"fence point 1; false only inside the fencing experiment"`
}

// RailProxy is the configuration of rail-proxy.
type RailProxy struct {
	Listen         string        `env:"RAIL_PROXY_LISTEN" envDefault:"127.0.0.1:8083" help:"address of the submission API"`
	AdminListen    string        `env:"RAIL_PROXY_ADMINLISTEN" envDefault:"127.0.0.1:9083" help:"private address of health, readiness, metrics and PUT /fencing"`
	DatasourceURL  string        `env:"PAYMENTS_DATASOURCE_URL" envDefault:"postgres://payapp@127.0.0.1:5433/paydb" help:"paydb"`
	StubURL        string        `env:"RAIL_PROXY_STUBURL" envDefault:"http://127.0.0.1:8084" help:"the rail"`
	Timeout        time.Duration `env:"RAIL_PROXY_TIMEOUT" envDefault:"8s" help:"from a request's arrival; covers commit and forwarding; after it nothing is forwarded"`
	FencingEnabled bool          `env:"RAIL_PROXY_FENCING_ENABLED" envDefault:"true" help:"fence point 2; false only inside the fencing experiment"`
}

// RailStub is the configuration of rail-stub.
type RailStub struct {
	Listen           string  `env:"RAIL_STUB_LISTEN" envDefault:"127.0.0.1:8084" help:"address of the rail"`
	AdminListen      string  `env:"RAIL_STUB_ADMINLISTEN" envDefault:"127.0.0.1:9084" help:"private address of health, readiness and metrics"`
	Journal          string  `env:"RAIL_STUB_JOURNAL" envDefault:"rail-journal.ndjson" help:"append-only file of money moved"`
	LatencyMS        int     `env:"RAIL_STUB_LATENCYMS" envDefault:"250" help:"time that moving money takes, in ms"`
	FailureRate      float64 `env:"RAIL_STUB_FAILURERATE" envDefault:"0" help:"share of transfers that are declined, 0 to 1"`
	DuplicateAckRate float64 `env:"RAIL_STUB_DUPLICATEACKRATE" envDefault:"0" help:"share of transfers that are accepted and whose reply is lost, 0 to 1"`
	LookupLagMS      int     `env:"RAIL_STUB_LOOKUPLAGMS" envDefault:"0" help:"how far the look-up is behind, in ms"`
	Seed             uint64  `env:"RAIL_STUB_SEED" envDefault:"1" help:"seed of declines and lost replies"`
}

// Executor is the configuration of payout-executor.
type Executor struct {
	AdminListen        string        `env:"EXECUTOR_ADMINLISTEN" envDefault:"127.0.0.1:9085" help:"private address of health, readiness and metrics"`
	OwnerID            string        `env:"EXECUTOR_OWNERID" envDefault:"" help:"owner id of this process, 1 to 64 bytes; required"`
	LockServerURL      string        `env:"EXECUTOR_LOCKSERVERURL" envDefault:"http://127.0.0.1:8081" help:"lock-server"`
	PaymentResourceURL string        `env:"EXECUTOR_PAYMENTRESOURCEURL" envDefault:"http://127.0.0.1:8082" help:"payment-resource"`
	RailProxyURL       string        `env:"EXECUTOR_RAILPROXYURL" envDefault:"http://127.0.0.1:8083" help:"rail-proxy"`
	Concurrency        int           `env:"EXECUTOR_CONCURRENCY" envDefault:"4" help:"accounts worked at once"`
	Prepare            time.Duration `env:"EXECUTOR_PREPARE" envDefault:"0s" help:"work between the last lease check and the protected call"`
	StepTimeout        time.Duration `env:"EXECUTOR_STEPTIMEOUT" envDefault:"10s" help:"timeout of a protected call, from its send"`
	Poll               time.Duration `env:"EXECUTOR_POLL" envDefault:"250ms" help:"pause between two looks for work"`
	DefaultTTL         time.Duration `env:"LOCK_DEFAULT_TTL" envDefault:"30s" help:"lease of a grant"`
	SessionTTL         time.Duration `env:"LOCK_SESSION_TTL" envDefault:"15s" help:"lease of the session"`
	SafetyMargin       float64       `env:"LOCK_CLIENT_SAFETYMARGIN" envDefault:"0.30" help:"share of a lease that the client does not use, 0 to 0.9"`
}

// Reconciler is the configuration of reconciler.
type Reconciler struct {
	AdminListen        string        `env:"RECONCILER_ADMINLISTEN" envDefault:"127.0.0.1:9086" help:"private address of health, readiness and metrics"`
	OwnerID            string        `env:"RECONCILER_OWNERID" envDefault:"reconciler" help:"owner id of this process, 1 to 64 bytes"`
	LockServerURL      string        `env:"RECONCILER_LOCKSERVERURL" envDefault:"http://127.0.0.1:8081" help:"lock-server"`
	PaymentResourceURL string        `env:"RECONCILER_PAYMENTRESOURCEURL" envDefault:"http://127.0.0.1:8082" help:"payment-resource"`
	RailStubURL        string        `env:"RECONCILER_RAILSTUBURL" envDefault:"http://127.0.0.1:8084" help:"the rail, for its look-up"`
	Interval           time.Duration `env:"RECONCILER_INTERVAL" envDefault:"10s" help:"pause between two rounds over the ambiguous payouts"`
	SettlementWindow   time.Duration `env:"RECONCILER_SETTLEMENTWINDOW" envDefault:"5m" help:"from the first sight of an ambiguous payout until a look-up without its transfer counts; nothing may be on its way to the rail for so long"`
	StepTimeout        time.Duration `env:"RECONCILER_STEPTIMEOUT" envDefault:"10s" help:"timeout of a call, from its send"`
	DefaultTTL         time.Duration `env:"LOCK_DEFAULT_TTL" envDefault:"30s" help:"lease of a grant"`
	SessionTTL         time.Duration `env:"LOCK_SESSION_TTL" envDefault:"15s" help:"lease of the session"`
	SafetyMargin       float64       `env:"LOCK_CLIENT_SAFETYMARGIN" envDefault:"0.30" help:"share of a lease that the client does not use, 0 to 0.9"`
}

// LockCtl is the configuration of lockctl, the operator's command; its flags override it.
type LockCtl struct {
	ServerURL             string        `env:"LOCK_CTL_SERVERURL" envDefault:"http://127.0.0.1:8081" help:"lock-server"`
	AdminURL              string        `env:"LOCK_CTL_ADMINURL" envDefault:"http://127.0.0.1:9081" help:"lock-server's private listener, for list and sessions"`
	PaymentResourceURL    string        `env:"LOCK_CTL_PAYMENTRESOURCEURL" envDefault:"http://127.0.0.1:8082" help:"payment-resource, for abandon"`
	StepTimeout           time.Duration `env:"LOCK_CTL_STEPTIMEOUT" envDefault:"10s" help:"timeout of a call, from its send"`
	Backend               string        `env:"LOCK_BACKEND" envDefault:"pg" help:"lock backend: pg or etcd, for restore-guard"`
	LockDatasourceURL     string        `env:"LOCK_DATASOURCE_URL" envDefault:"postgres://lockapp@127.0.0.1:5432/lockdb" help:"lockdb, for restore-guard on pg"`
	PaymentsDatasourceURL string        `env:"PAYMENTS_DATASOURCE_URL" envDefault:"postgres://payapp@127.0.0.1:5433/paydb" help:"paydb, which restore-guard only reads"`
	EtcdEndpoints         []string      `env:"ETCD_ENDPOINTS" envSeparator:"," help:"etcd's members, comma-separated, for restore-guard's second step on etcd; required there"`
	Etcdutl               string        `env:"ETCDUTL" envDefault:"etcdutl" help:"etcd's program of that name, for restore-guard's first step on etcd"`
	DefaultTTL            time.Duration `env:"LOCK_DEFAULT_TTL" envDefault:"30s" help:"lease of the grant under which abandon works"`
	SessionTTL            time.Duration `env:"LOCK_SESSION_TTL" envDefault:"15s" help:"lease of its session"`
	SafetyMargin          float64       `env:"LOCK_CLIENT_SAFETYMARGIN" envDefault:"0.30" help:"share of a lease that the client does not use, 0 to 0.9"`
}

// processes lists every configuration: together they are all variables that exist.
var processes = []any{LockServer{}, PaymentResource{}, RailProxy{}, RailStub{}, Executor{}, Reconciler{}, LockCtl{}}

// prefixes are those that belong to this system: a variable under one of them that no process knows is a mistake.
var prefixes = []string{"LOCK_", "PAYMENT_", "PAYMENTS_", "RAIL_", "EXECUTOR_", "RECONCILER_", "POOL_"}

// Load reads C from the environment. The error names every variable that is wrong, and for an unknown one the nearest
// valid name.
func Load[C any]() (C, error) { return Parse[C](os.Environ()) }

// Parse is Load from a given environment, in the form of os.Environ.
func Parse[C any](environ []string) (C, error) {
	var c C
	vars := env.ToMap(environ)
	errs := unknown(vars)
	if err := env.ParseWithOptions(&c, env.Options{Environment: vars}); err != nil {
		errs = append(errs, named(reflect.TypeFor[C](), err)...)
	} else if wrong := validate(reflect.ValueOf(c)); len(wrong) > 0 {
		errs = append(errs, wrong...)
	} else if o, ok := any(c).(orderly); ok {
		errs = append(errs, o.disagreements()...)
	}
	return c, errors.Join(errs...)
}

// named says which variable could not be read, where the parser names a field of C.
func named(c reflect.Type, err error) []error {
	all := []error{err}
	if several := (env.AggregateError{}); errors.As(err, &several) {
		all = several.Errors
	}
	for i, e := range all {
		var parse env.ParseError
		if !errors.As(e, &parse) {
			continue
		}
		if f, ok := c.FieldByName(parse.Name); ok {
			all[i] = fmt.Errorf("%s: %w", f.Tag.Get("env"), parse.Err)
		}
	}
	return all
}

func unknown(vars map[string]string) (errs []error) {
	known := Names()
	for name := range vars {
		ours := slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if ours && !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%s is no variable of this system; did you mean %s?", name, Nearest(name, known)))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// Names lists the variables of all processes, sorted.
func Names() []string {
	var names []string
	for _, p := range processes {
		t := reflect.TypeOf(p)
		for i := range t.NumField() {
			names = append(names, t.Field(i).Tag.Get("env"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Usage prints the variables of C with defaults and meaning.
func Usage[C any](w io.Writer) {
	var c C
	t := reflect.TypeOf(c)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	defer tw.Flush() // errors of a help text written to a terminal have no reader
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", tag.Get("env"), cmpOr(tag.Get("envDefault"), "(none)"), tag.Get("help"))
	}
}

func cmpOr(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

// orderly is a configuration whose variables must agree with one another.
type orderly interface{ disagreements() []error }

// disagreements asks of the etcd backend what only it needs: members, and leases of whole seconds, because etcd knows no
// others and a default that is always refused is a mistake.
func (c LockServer) disagreements() (errs []error) {
	if c.Backend != "etcd" {
		return nil
	}
	if len(c.EtcdEndpoints) == 0 {
		errs = append(errs, errors.New("ETCD_ENDPOINTS: LOCK_BACKEND=etcd needs etcd's members; give http://host:port, separated by commas"))
	}
	for _, lease := range []struct {
		name string
		ttl  time.Duration
	}{{"LOCK_DEFAULT_TTL", c.DefaultTTL}, {"LOCK_SESSION_TTL", c.SessionTTL}} {
		if lease.ttl%time.Second != 0 {
			errs = append(errs, fmt.Errorf("%s: etcd's leases last whole seconds, and %s does not", lease.name, lease.ttl))
		}
	}
	return errs
}

func (c Executor) disagreements() []error {
	return covered("EXECUTOR_STEPTIMEOUT and EXECUTOR_PREPARE", c.StepTimeout+c.Prepare, c.SafetyMargin, c.SessionTTL, c.DefaultTTL)
}

func (c Reconciler) disagreements() []error {
	return covered("RECONCILER_STEPTIMEOUT", c.StepTimeout, c.SafetyMargin, c.SessionTTL, c.DefaultTTL)
}

// covered asks whether a fresh lease covers a step at all: a holder that may begin nothing would only take turns at the
// lock.
func covered(names string, step time.Duration, margin float64, session, grant time.Duration) (errs []error) {
	for _, lease := range []struct {
		name string
		ttl  time.Duration
	}{{"LOCK_SESSION_TTL", session}, {"LOCK_DEFAULT_TTL", grant}} {
		if usable := time.Duration(float64(lease.ttl) * (1 - margin)); usable <= step {
			errs = append(errs, fmt.Errorf("%s: a step of %s could never begin, because %s=%s less LOCK_CLIENT_SAFETYMARGIN leaves %s",
				names, step, lease.name, lease.ttl, usable))
		}
	}
	return errs
}

// validate checks every field by what its name says it is.
func validate(v reflect.Value) (errs []error) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Tag.Get("env"), v.Field(i)
		if err := validateField(name, f); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errs
}

func validateField(name string, f reflect.Value) error {
	switch x := f.Interface().(type) {
	case time.Duration:
		optional := name == "EXECUTOR_PREPARE"
		if x < 0 || (x == 0 && !optional) {
			return fmt.Errorf("%s is no usable duration; give one like 250ms or 8s", x)
		}
		if strings.HasPrefix(name, "LOCK_") && strings.HasSuffix(name, "_TTL") && (x < time.Second || x > time.Minute) {
			return fmt.Errorf("%s is out of range; a lease is 1s to 1m", x)
		}
	case int:
		zeroOK := strings.HasSuffix(name, "MS")
		if x < 0 || (x == 0 && !zeroOK) {
			return fmt.Errorf("%d is out of range", x)
		}
	case float64:
		limit := 1.0
		if name == "LOCK_CLIENT_SAFETYMARGIN" {
			limit = 0.9
		}
		if !(x >= 0 && x <= limit) {
			return fmt.Errorf("%v is out of range; 0 to %v", x, limit)
		}
	case string:
		return validateString(name, x)
	case []string:
		return validateEndpoints(x)
	}
	return nil
}

// validateEndpoints takes plain HTTP only: there is nothing to configure certificates with.
func validateEndpoints(all []string) error {
	for _, s := range all {
		if u, err := url.Parse(s); err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || s != "http://"+u.Host {
			return fmt.Errorf("%q is no member of etcd; give http://host:port, separated by commas", s)
		}
	}
	return nil
}

func validateString(name, s string) error {
	switch {
	case strings.HasSuffix(name, "LISTEN"):
		if _, _, err := net.SplitHostPort(s); err != nil {
			return fmt.Errorf("%q is no address to listen on; give host:port", s)
		}
	case strings.HasSuffix(name, "_DATASOURCE_URL"):
		if u, err := url.Parse(s); err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			return errors.New("no PostgreSQL URL; give postgres://user@host:port/database") // the value may hold a password
		}
	case name == "RAIL_PROXY_STUBURL" && strings.HasPrefix(s, "https:"):
		return errors.New("the rail is called over plain HTTP; give http://host:port") // a deadline on every write needs the bare connection
	case strings.HasSuffix(name, "URL"):
		if u, err := url.Parse(s); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return fmt.Errorf("%q is no URL; give http://host:port", s)
		}
	case name == "LOCK_BACKEND":
		if s != "pg" && s != "etcd" {
			return fmt.Errorf("%q is no lock backend; use pg or etcd", s)
		}
	case strings.HasSuffix(name, "_OWNERID"):
		if s == "" || len(s) > 64 {
			return fmt.Errorf("%q has %d bytes; an owner id has 1 to 64", s, len(s))
		}
	case s == "":
		return errors.New("must not be empty")
	}
	return nil
}
