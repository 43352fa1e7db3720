"""What agents report, and what metrics.k8s.io measures."""
