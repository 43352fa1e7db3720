"""An HTTP server that survives floods of connections: limits, certificates, and probes."""
