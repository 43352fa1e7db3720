"""The only package that writes to the cluster: each decision becomes one conditional write."""
