package etcd

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
)

// leads is the line of a member's metrics that says that it leads.
const leads = "etcd_server_is_leader 1"

// Leads asks the member whether it leads. One that was cut off from the others may believe so for a while.
func (m *Member) Leads(ctx context.Context) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL()+"/metrics", nil)
	if err != nil {
		return false, err
	}
	resp, err := probe.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask %s whether it leads: %w", m.name, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == leads {
			return true, nil
		}
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("ask %s whether it leads: %w", m.name, err)
	}
	return false, nil
}
