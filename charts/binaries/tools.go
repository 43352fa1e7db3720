//go:build tools

// Package binaries pins Helm: go.mod and go.sum decide what is built.
package binaries

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
