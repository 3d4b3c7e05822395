//go:build !race

package locktest

// raced tells whether the race detector is in this build.
const raced = false
