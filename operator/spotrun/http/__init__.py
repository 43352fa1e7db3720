"""An HTTP server that survives floods: limits, certificates, and plain ports for probes."""
