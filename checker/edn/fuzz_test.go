package edn_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"fenceproof/checker/edn"
)

// FuzzRead: whatever the text, each form has a place in it, forms follow one another, and an error names a place as well.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"{:type :invoke, :f :acquire, :value nil, :process 0}\n#jepsen.history.Op{:index 0, :error [:timeout \"no\\u263a\"]}",
		"[1 -2N 3.5M 1/2 ##Inf \\newline #_ x ^{:a 1} y #{1} #\"\\d\" 'q @a #'v #:ns{:a 1} #(f)]", "(; remark\n)", "\ufeff,,\"\\",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := edn.NewReader(bytes.NewReader(text))
		if _, err := r.Enter(); err != nil {
			placed(t, err)
			return
		}
		line, column := 1, 0
		for n := 0; ; n++ {
			v, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				placed(t, err)
				if _, again := r.Next(); again == nil {
					t.Fatalf("it reads on behind %v", err)
				}
				return
			}
			if v.Line < line || v.Line == line && v.Column <= column || n > len(text) {
				t.Fatalf("form %d is at line %d, column %d; the one before it at %d, %d", n, v.Line, v.Column, line, column)
			}
			line, column = v.Line, v.Column
			measure(t, &v, 0)
		}
	})
}

func placed(t *testing.T, err error) {
	var e *edn.Error
	if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Msg == "" {
		t.Fatalf("%v has no place", err)
	}
}

// measure sees that a form keeps within its bounds.
func measure(t *testing.T, v *edn.Value, depth int) {
	if depth > edn.MaxDepth+1 {
		t.Fatalf("%d forms are within one another", depth)
	}
	if v.Kind == edn.Map && len(v.Items)%2 != 0 || v.Kind == edn.Tagged && len(v.Items) != 1 {
		t.Fatalf("%+v", v)
	}
	for i := range v.Items {
		measure(t, &v.Items[i], depth+1)
	}
}

// FuzzString: every string is read back as it was written.
func FuzzString(f *testing.F) {
	f.Add("a\"b\\c\n\t\r☺\x00\u200f")
	f.Fuzz(func(t *testing.T, s string) {
		b := edn.AppendString(nil, s)
		v, err := edn.NewReader(bytes.NewReader(b)).Next()
		if want := string([]rune(s)); err != nil && len(s) < 1000 || err == nil && (v.Kind != edn.String || v.Text != want) {
			t.Fatalf("%q is written %s and read %q (%v)", s, b, v.Text, err)
		}
	})
}
