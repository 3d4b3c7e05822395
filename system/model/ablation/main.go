// Command ablation prints what each guard of the payout protocol is worth: the table of docs/model.md.
//
//	go run ./system/model/ablation
//	go run ./system/model/ablation -late 0 -schedules
package main

import (
	"flag"
	"fmt"
	"os"

	"fenceproof/system/model"
)

func main() {
	late := flag.Int("late", 1, "how many requests may be late or doubled, 0 or 1; more take hours")
	schedules := flag.Bool("schedules", false, "print a shortest schedule to everything that falls")
	flag.Parse()
	if err := run(*late, *schedules); err != nil {
		fmt.Fprintln(os.Stderr, "ablation:", err)
		os.Exit(1)
	}
}

func run(late int, schedules bool) error {
	if late < 0 || late > 1 {
		return fmt.Errorf("-late is %d and may be 0 or 1", late)
	}
	punctual, err := model.Table(model.Ablation(), model.Worlds(0)...)
	if err != nil {
		return err
	}
	rows := punctual
	if late > 0 {
		if rows, err = model.Table(model.Ablation(), model.Worlds(late)...); err != nil {
			return err
		}
	}
	fmt.Print(model.Markdown(punctual, rows))
	if schedules {
		for _, r := range rows {
			fmt.Print("\n", r.Stories())
		}
	}
	return nil
}
