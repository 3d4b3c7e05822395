// Command bundle makes page/dist from the sources of the report's page. Run it from the module's root after a change
// of reports/page: `go run ./reports/bundle`. The result is committed, so that nobody needs it to build the suite.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

//go:generate go run . ../page

func main() {
	dir := filepath.Join("reports", "page")
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	files, err := bundle(dir)
	if err == nil {
		err = write(files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundle the report's page:", err)
		os.Exit(1)
	}
}

// bundle returns the contents of page/dist by path. It is a pure function of the sources and of esbuild's version.
func bundle(dir string) (map[string][]byte, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, entry := range []string{"report.js", "report.css"} {
		res := api.Build(api.BuildOptions{
			AbsWorkingDir:     root,
			EntryPoints:       []string{entry},
			Outfile:           filepath.Join("dist", entry),
			Bundle:            true,
			MinifyWhitespace:  true,
			MinifySyntax:      true,
			MinifyIdentifiers: true,
			Charset:           api.CharsetASCII,
			Format:            api.FormatIIFE,
			Target:            api.ES2020,
			LegalComments:     api.LegalCommentsNone,
		})
		if len(res.Errors) > 0 {
			return nil, errors.New(res.Errors[0].Text)
		}
		for _, f := range res.OutputFiles {
			out[f.Path] = f.Contents
		}
	}
	return out, nil
}

func write(files map[string][]byte) error {
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
