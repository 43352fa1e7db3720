"""Opening a place of data by its path, or by its address in an object store."""

from importlib.util import find_spec
from pathlib import Path

from spotrun_trainer.data.places.folder import Folder
from spotrun_trainer.data.places.objects import Objects
from spotrun_trainer.data.places.shards import DataPlace
from spotrun_trainer.store.addresses import Address, is_address, without_secrets

_MISSING = (
    "data in object stores needs the package obstore, which is not installed here: "
    "pip install 'spotrun[trainer,store]'"
)


def open_place(where: str | Path) -> DataPlace:
    """Return the place; raises ValueError if it is not a valid place."""
    if not is_address(where):
        return Folder(_path(str(where)))
    address = Address.parse(str(where))
    if find_spec("obstore") is None:
        raise ValueError(_MISSING)
    return Objects(address)


def _path(text: str) -> Path:
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Path(text)
    if scheme == "file" and rest.startswith("/"):
        return Path(rest)
    raise ValueError(
        f"{without_secrets(text)} cannot be a place for data: give a path, a file:/// address, or "
        "a place in an object store (s3://, gs://, az://)"
    )
