package reports

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is one headless Chromium with one tab. It gathers what a page complains about, and all that it fetches.
type browser struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	fetched    []string
}

// openBrowser starts Chromium, or skips the test where there is none.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium is installed: the report was not opened in a browser; install the package chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	for _, off := range []string{"disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(off, true))
	}
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	ctx, endProcess := chromedp.NewExecAllocator(ctx, options...)
	ctx, endTab := chromedp.NewContext(ctx)
	b := &browser{ctx: ctx}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("close the browser: %v", err)
		}
		endTab()
		endProcess()
		end()
	})
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, ev.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, "console."+string(ev.Type))
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, ev.Entry.Text)
	case *network.EventRequestWillBeSent:
		b.fetched = append(b.fetched, ev.Request.URL)
	}
}

// load opens a page from its file.
func (b *browser) load(t *testing.T, html []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, html, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(b.ctx, chromedp.Navigate("file://"+path)); err != nil {
		t.Fatal(err)
	}
}

// ask evaluates an expression in the page.
func ask[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *browser) click(t *testing.T, selector string) {
	t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		t.Fatalf("click %s: %v", selector, err)
	}
}

func (b *browser) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		t.Errorf("the page complains: %s", strings.Join(b.complaints, "; "))
	}
	for _, url := range b.fetched {
		if !strings.HasPrefix(url, "file://") || !strings.HasSuffix(url, FileName) {
			t.Errorf("the page fetches %s", url)
		}
	}
	if len(b.fetched) == 0 {
		t.Error("not even the page itself was seen to be fetched: the test sees nothing")
	}
}

const found = `document.getElementById('time-found').textContent`

func TestTheReportInABrowser(t *testing.T) {
	b := openBrowser(t)
	s := play(3, true, 6, 4, 8*time.Second)
	run := verdictOf(s, "rail-off")
	accuse(&run, s)
	html, err := build(run, inMemory(s.events), MaxBytes)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("opens offline and shows verdict, story and lanes", func(t *testing.T) {
		b.load(t, html)
		if h1 := ask[string](t, b, `document.querySelector('h1').textContent`); !strings.Contains(h1, "was paid twice") {
			t.Errorf("the headline is %q", h1)
		}
		if n := ask[int](t, b, `document.querySelectorAll('#story-body .sequence .step').length`); n < 20 {
			t.Errorf("the diagram has %d steps", n)
		}
		painted := `(() => { const c = document.getElementById('lanes'); const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; return p.some((x) => x > 0) })()`
		if !ask[bool](t, b, painted) {
			t.Error("the lanes are empty")
		}
		b.quiet(t)
	})

	t.Run("jumps to the first violation", func(t *testing.T) {
		b.click(t, "#first-violation")
		first := run.Invariants[4].Violations[0] // the mark goes down before the money moves
		said := ask[string](t, b, found)
		if !strings.Contains(said, "INV-05 violated at "+seconds(micros(first.Events[len(first.Events)-1].T))) || !strings.Contains(said, first.Sentence) {
			t.Errorf("it says %q, want the sentence %q", said, first.Sentence)
		}
	})

	t.Run("finds a token and tells its story", func(t *testing.T) {
		l := s.lates[2]
		if l.second == nil {
			t.Fatal("the scene has no second double payment")
		}
		if err := chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("#search"), token(l.old)+"\r")); err != nil {
			t.Fatal(err)
		}
		if said := ask[string](t, b, found); !strings.Contains(said, "token "+token(l.old)) || !strings.Contains(said, string(l.who)) {
			t.Errorf("it says %q", said)
		}
		if told := ask[string](t, b, `document.getElementById('story-caption').textContent`); !strings.Contains(told, l.job.payout) {
			t.Errorf("the story told is %q, want payout %s", told, l.job.payout)
		}
	})

	t.Run("says when nothing is found", func(t *testing.T) {
		if err := chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("#search"), "zzz\r")); err != nil {
			t.Fatal(err)
		}
		if said := ask[string](t, b, found); !strings.Contains(said, "Nothing here") {
			t.Errorf("it says %q", said)
		}
	})

	t.Run("fits a narrow screen", func(t *testing.T) {
		if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(400, 800)); err != nil {
			t.Fatal(err)
		}
		b.load(t, html)
		if over := ask[int](t, b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
			t.Errorf("the page is %d px wider than the screen", over)
		}
		if n := ask[int](t, b, `document.querySelectorAll('#story-body > .steps li').length`); n < 20 {
			t.Errorf("the story's list has %d lines", n)
		}
		b.quiet(t)
	})

	t.Run("shows hostile evidence as text", func(t *testing.T) {
		_, html := poisoned(t)
		b.load(t, html)
		if ask[bool](t, b, `window.broken !== undefined`) {
			t.Error("a text of the evidence was run")
		}
		if n := ask[int](t, b, `document.images.length`); n > 0 {
			t.Errorf("a text of the evidence made %d images", n)
		}
		if told := ask[string](t, b, `document.getElementById('story-caption').textContent`); !strings.Contains(told, "onerror") {
			t.Errorf("the hostile id is not shown: %q", told)
		}
		b.quiet(t)
	})
}
