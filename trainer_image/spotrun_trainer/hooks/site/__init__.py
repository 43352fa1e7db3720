"""A folder for PYTHONPATH: it holds `sitecustomize` alone."""
