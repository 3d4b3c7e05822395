// Package reports tells people and machines what a run has shown: report.html, one file that opens offline in any
// browser, a Markdown summary for CI, and JUnit XML. All of it rests on the verdict and the history alone.
package reports

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"path/filepath"

	"fenceproof/checker/verdict"

	"github.com/google/renameio/v2"
)

// FileName is the name of the report in a run's folder.
const FileName = "report.html"

// MaxBytes is the size that a report never exceeds, however long the run was.
const MaxBytes = 10_000_000

// The page's parts. report.js and report.css are the bundle of page/, made by `go run ./reports/bundle`.
var (
	//go:embed page/report.html
	templateText string
	//go:embed page/dist/report.js
	script string
	//go:embed page/dist/report.css
	style string

	page = template.Must(template.New("report").Parse(templateText))
)

// Write writes dir/report.html from a run's verdict and the history in historyDir. The file is there whole or not at
// all. A history that cannot be read, or not to its end, is no error: the report says so and shows what there is,
// because a report is owed on every outcome.
func Write(dir string, run verdict.Run, historyDir string) error {
	html, err := build(run, openHistory(historyDir), MaxBytes)
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, FileName), html, 0o644, renameio.WithTempDir(dir))
}

// build makes the page, with less and less detail until it has at most max bytes.
func build(run verdict.Run, open opener, limit int) ([]byte, error) {
	lim := fullLimits
	for range 12 {
		st := study(run, open, lim)
		html, err := compose(run, st)
		if err != nil || len(html) <= limit {
			return html, err
		}
		lim = lim.shrink()
	}
	return nil, fmt.Errorf("the report does not fit into %d bytes, even without its details", limit)
}

func compose(run verdict.Run, st studied) ([]byte, error) {
	// encoding/json writes <, > and & as escapes, so no text of the evidence can end the script element.
	data, err := json.Marshal(st.data)
	if err != nil {
		return nil, fmt.Errorf("put the report's data together: %w", err)
	}
	v := viewOf(run, st)
	v.Data, v.Script, v.Style = template.JS(data), template.JS(script), template.CSS(style)
	// The page may run its own script and nothing else, and may fetch nothing at all.
	v.Policy = template.HTMLAttr(`content="default-src 'none'; script-src ` + hash(script) + `; style-src ` + hash(style) + `; base-uri 'none'; form-action 'none'"`)
	return render(v)
}

// hash names an inline element's text in a content security policy.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
