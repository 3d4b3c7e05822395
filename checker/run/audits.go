package run

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"fenceproof/checker/contract"
	"fenceproof/deploy/local"
	"fenceproof/workloads"
)

// auditCommand is the auditor's command of the program that is the lock clients', too.
const auditCommand = "audit"

// auditor starts the plan's auditor; it reads until the clients are stopped.
func (d *payouts) auditor(ctx context.Context) error {
	if d.cfg.Plan.Audits == 0 {
		return nil
	}
	a := workloads.Audit{Owner: string(contract.Auditor), Seed: d.cfg.Plan.Seed, Rate: d.cfg.Plan.Audits}
	err := d.stack.StartClient(ctx, local.Client{
		Name: a.Owner, Program: filepath.Join(d.cfg.Bin, lockProgram), Server: local.PaymentResource,
		Args: func(server string) []string {
			a.Server = server
			text, _ := json.Marshal(a) // texts and numbers
			return []string{auditCommand, string(text)}
		},
	})
	if err != nil {
		return fmt.Errorf("start the auditor: %w", err)
	}
	return nil
}

// endClients ends the auditor and the lock clients.
func (d *payouts) endClients(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clientsEnd)
	defer cancel()
	if err := d.stack.StopClients(ctx); err != nil {
		return fmt.Errorf("end the clients: %w", err)
	}
	return nil
}
