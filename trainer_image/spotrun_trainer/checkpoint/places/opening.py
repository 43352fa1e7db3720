"""Opening a place by its path, or by its address in an object store."""

from pathlib import Path

from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.checkpoint.places.directory import Place, open_place
from spotrun_trainer.store.addresses import Address, is_address

_MISSING = (
    "checkpoints in object stores need the package obstore, which is not installed here: "
    "pip install 'spotrun[trainer,store]'"
)


def open_storage(where: str | Path) -> Storage:
    """Return the place; raises ValueError, without any request, if it is not a valid place."""
    if not is_address(where):
        return Place(open_place(where))
    address = Address.parse(str(where))
    try:
        from spotrun_trainer.checkpoint.places.objects import Objects  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise ValueError(_MISSING) from error
    return Objects.at(address)
