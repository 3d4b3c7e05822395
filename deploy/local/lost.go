package local

import "github.com/Shopify/toxiproxy/v2/toxics"

// lostType is the name of the toxic below.
const lostType = "lost"

func init() { toxics.Register(lostType, new(lost)) }

// lost is a toxic that swallows what passes, the end of the stream included: a network that is cut tells nobody that the
// other side has gone, as the proxy's own timeout toxic would. When it is taken off it ends the stream, which lacks
// something.
type lost struct{}

// Pipe swallows one stream until it is interrupted.
func (*lost) Pipe(s *toxics.ToxicStub) {
	for in := s.Input; ; {
		select {
		case <-s.Interrupt:
			return
		case c := <-in:
			if c == nil {
				in = nil
			}
		}
	}
}

// Cleanup ends the stream.
func (*lost) Cleanup(s *toxics.ToxicStub) {
	s.Close()
	go drain(s.Input)
}
