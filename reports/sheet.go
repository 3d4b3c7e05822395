package reports

import "html/template"

// Sheet is the style of the reports with more added to it, for a page of another package, and the attribute of the policy
// that lets such a page use it and nothing else: no script, and nothing from elsewhere.
func Sheet(more string) (template.CSS, template.HTMLAttr) {
	css := style + more
	return template.CSS(css), template.HTMLAttr(`content="default-src 'none'; style-src ` + hash(css) + `; base-uri 'none'; form-action 'none'"`)
}
