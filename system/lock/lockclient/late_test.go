package lockclient

import (
	"testing"
	"testing/synctest"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"
)

// The grant comes so late that its acquire has hardly any time left, and its renewal gets no answer. It is given back all
// the same: others need not wait for its lease to end.
func TestAGrantThatComesAtTheLastMomentAndCannotBeUsedIsGivenBack(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", time.Minute)
		n.setFate(func(call wire.Call) fate {
			if acquisition(call) {
				return fate{answerDelay: requestLimit - 100*time.Millisecond}
			}
			return fate{lost: renewal(call)}
		})
		_, err := c.Acquire(t.Context(), "k", 20*time.Second, 0)
		mustBe(t, err, lock.ErrUnavailable)
		synctest.Wait()
		if v.store.held("k") {
			t.Error("nobody uses the grant, and the server still holds it")
		}
	})
}
