package executor

import "log/slog"

var quiet = slog.New(slog.DiscardHandler)
