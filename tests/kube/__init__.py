"""Tests against a real Kubernetes control plane on this machine: `make kube-test`."""
