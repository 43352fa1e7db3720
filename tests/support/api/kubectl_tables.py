"""Reads the tables that `kubectl get` prints."""

import itertools
import re


def only_row(table: str) -> dict[str, str]:
    """Return the one row of a table by its column names; a column may be empty or hold spaces."""
    head, row = table.splitlines()
    starts = [*(match.start() for match in re.finditer(r"\S+", head)), None]
    columns = zip(head.split(), itertools.pairwise(starts), strict=True)
    return {name: row[start:end].strip() for name, (start, end) in columns}
