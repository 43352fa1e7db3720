//go:build tools

// Package kueue pins the Kueue that tests run beside the test cluster's API server.
package kueue

import _ "sigs.k8s.io/kueue/cmd/kueue"
