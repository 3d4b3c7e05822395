package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// MaxLine is the length of the longest line, in bytes. It bounds the memory of a reader.
const MaxLine = 16 << 20

// Writer writes the file of one witness: header, events in order of I, trailer. It serves the Recorder, and everything
// that makes a history without a run: converters and generators, which bring I and T along.
type Writer struct {
	w       *bufio.Writer
	witness Witness
	line    []byte
	trailer Trailer
	done    bool
}

// NewWriter writes the header of witness's file to w. The caller closes w, after Flush.
func NewWriter(w io.Writer, witness Witness, h Header) (*Writer, error) {
	h.Schema, h.Witness = SchemaVersion, witness
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(struct {
		Header Header `json:"header"`
	}{h}); err != nil {
		return nil, fmt.Errorf("write the header of %s: %w", witness, err)
	}
	if line.Len() > MaxLine {
		return nil, fmt.Errorf("write the header of %s: it has %d bytes, a line may have %d", witness, line.Len(), MaxLine)
	}
	out := &Writer{w: bufio.NewWriterSize(w, 128<<10), witness: witness}
	if _, err := out.w.Write(line.Bytes()); err != nil {
		return nil, fmt.Errorf("write the header of %s: %w", witness, err)
	}
	return out, nil
}

// Write appends e. Its I must be above the I of the event before it, and W the writer's witness; what would make a file
// that no reader takes is refused.
func (w *Writer) Write(e *Event) error {
	switch {
	case w.done:
		return fmt.Errorf("write event %d of %s: the file is complete already", e.I, w.witness)
	case e.W != w.witness:
		return fmt.Errorf("write event %d: it is of %q, the file is of %s", e.I, e.W, w.witness)
	case e.I <= w.trailer.Last:
		return fmt.Errorf("write event %d of %s: it comes after event %d", e.I, w.witness, w.trailer.Last)
	}
	w.line = append(AppendEvent(w.line[:0], e), '\n')
	if len(w.line) > MaxLine {
		n := len(w.line)
		w.line = nil
		return fmt.Errorf("write event %d of %s: it has %d bytes, a line may have %d", e.I, w.witness, n, MaxLine)
	}
	if _, err := w.w.Write(w.line); err != nil {
		return fmt.Errorf("write event %d of %s: %w", e.I, w.witness, err)
	}
	w.trailer.Events++
	w.trailer.Last = e.I
	return nil
}

// Complete appends the trailer: nothing is missing, and nothing follows. A second call does nothing.
func (w *Writer) Complete() error {
	if w.done {
		return nil
	}
	w.done = true
	if _, err := fmt.Fprintf(w.w, `{"trailer":{"events":%d,"last":%d}}`+"\n", w.trailer.Events, w.trailer.Last); err != nil {
		return fmt.Errorf("write the trailer of %s: %w", w.witness, err)
	}
	return nil
}

// Flush hands everything written to the underlying writer.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("write the history of %s: %w", w.witness, err)
	}
	return nil
}
