"""A place by its path, or by its address."""

from pathlib import Path

from spotrun_trainer.checkpoint.format.directory import Place, open_place
from spotrun_trainer.checkpoint.format.storage import Storage


def is_address(where: str | Path) -> bool:
    """Whether it is in an object store."""
    return False


def open_storage(where: str | Path) -> Storage:
    """Return the place; raises ValueError, without any request, for what is none."""
    return Place(open_place(where))
