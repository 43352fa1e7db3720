//go:build tools

// Package prometheus pins Prometheus: go.mod and go.sum decide what is built.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
