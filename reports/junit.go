package reports

import (
	"encoding/xml"
	"fmt"
	"strings"

	"fenceproof/checker/verdict"
)

// The elements of JUnit's XML, as far as CI systems read them.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Stamp    string      `xml:"timestamp,attr,omitempty"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit is the run as JUnit XML, one test case per invariant and one for the run as a whole. A violation is a failure;
// what is inconclusive or not exercised is an error, because JUnit's "skipped" would count as a success. A negative
// control is the one case whether it was met.
func JUnit(run verdict.Run) ([]byte, error) {
	s := junitSuite{Name: "fenceproof " + run.ID}
	if !run.Started.IsZero() {
		s.Stamp = run.Started.UTC().Format("2006-01-02T15:04:05")
	}
	if run.Expect == nil {
		for _, inv := range run.Invariants {
			s.add(junitOf(inv))
		}
	}
	s.add(whole(run))
	out, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the run as JUnit XML: %w", err)
	}
	return append([]byte(xml.Header), append(out, '\n')...), nil
}

func (s *junitSuite) add(c junitCase) {
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Error != nil {
		s.Errors++
	}
	s.Cases = append(s.Cases, c)
}

func junitOf(inv verdict.Invariant) junitCase {
	c := junitCase{Class: "invariants", Name: strings.TrimSpace(inv.ID + " " + inv.Guarantee)}
	word, _ := statusWord(inv.Status)
	p := &junitProblem{Message: firstOf(inv.Reason, word)}
	for _, v := range inv.Violations {
		p.Text += v.Sentence + "\n"
	}
	switch inv.Status {
	case verdict.Pass:
	case verdict.Violated:
		c.Failure = p
	default:
		c.Error = p
	}
	return c
}

// whole is the verdict on the run: that of a control, and of a run that failed before it could judge anything.
func whole(run verdict.Run) junitCase {
	h := headlineOf(run, blows{})
	c := junitCase{Class: "run", Name: "verdict"}
	p := &junitProblem{Message: h.Word, Text: h.Sentence + "\n"}
	switch {
	case h.Tone == "pass" && run.Exit == 0:
	case h.Tone == "violated":
		c.Failure = p
	default:
		c.Error = p
	}
	return c
}
