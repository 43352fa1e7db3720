"""The documents of docs/ as a site; `make docs` builds it."""
