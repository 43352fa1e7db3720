"""Datasets whose samples have columns; a user may choose some of them."""

from collections.abc import Sequence
from pathlib import Path

from spotrun_trainer.data.formats.dataset import WINDOW, ShardedDataset, Transform


class ColumnDataset(ShardedDataset):
    """Samples are dicts by column.

    columns     only these; default: all
    """

    def __init__(
        self,
        where: str | Path,
        *,
        columns: Sequence[str] | None = None,
        window: int | None = WINDOW,
        transform: Transform | None = None,
    ) -> None:
        self._check_package()
        self._columns = None if columns is None else list(columns)
        super().__init__(where, window=window, transform=transform)

    def _check_package(self) -> None:
        """Raise ValueError that says what to install."""


def check_columns(wanted: Sequence[str] | None, present: Sequence[str], where: str) -> None:
    """Raise ValueError for columns that do not exist."""
    if missing := set(wanted or ()) - set(present):
        raise ValueError(
            f"{where} has no column {', '.join(sorted(missing))}; it has {', '.join(present)}"
        )
