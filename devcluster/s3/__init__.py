"""A real S3 server on this machine, for tests and benches: versitygw, over a folder."""
