//go:build tools

// Package binaries names the commands of a real node that devcluster does not need, so that go.mod and go.sum cover them.
package binaries

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubeadm"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
