//go:build tools

// Package s3 pins the S3 server of tests and benches: go.mod and go.sum decide what is built.
package s3

import (
	_ "github.com/versity/versitygw/cmd/versitygw"
)
