package soak

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Seeds are seeds that are strings in JSON: not every reader of a number keeps all of its digits.
type Seeds []uint64

// MarshalJSON writes the seeds as strings.
func (s Seeds) MarshalJSON() ([]byte, error) {
	all := make([]string, len(s))
	for i, seed := range s {
		all[i] = strconv.FormatUint(seed, 10)
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads what MarshalJSON has written, and numbers, as they once were written.
func (s *Seeds) UnmarshalJSON(b []byte) error {
	var all []json.Number // a string is taken for one as well
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	*s = make(Seeds, len(all))
	for i, text := range all {
		seed, err := strconv.ParseUint(text.String(), 10, 64)
		if err != nil {
			return fmt.Errorf("seed %d: %w", i, err)
		}
		(*s)[i] = seed
	}
	return nil
}

// ranges writes ascending seeds in few words: "1–9, 12".
func ranges(seeds []uint64) string {
	var parts []string
	for i := 0; i < len(seeds); {
		j := i
		for j+1 < len(seeds) && seeds[j+1] == seeds[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, fmt.Sprint(seeds[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", seeds[i], seeds[j]))
		}
		i = j + 1
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}
