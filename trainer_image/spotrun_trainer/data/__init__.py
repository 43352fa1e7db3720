"""The data of a training: each sample exactly once per epoch with any number of workers.

A sample's number counts from the beginning of training; this number decides which sample it is,
which random numbers it gets, and which process loads it. So nothing has to be moved or remembered
when the world changes.

`open_dataset`, or a dataset's class, opens data in files, from a folder or an object store; `mix`
draws from several datasets by weight.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spotrun_trainer.data.formats.hdf5 import HDF5
    from spotrun_trainer.data.formats.opening import open_dataset
    from spotrun_trainer.data.formats.tables import Arrow, Parquet
    from spotrun_trainer.data.formats.tar import Tar
    from spotrun_trainer.data.formats.token_file import TokenFile
    from spotrun_trainer.data.mixing import mix

__all__ = ["HDF5", "Arrow", "Parquet", "Tar", "TokenFile", "mix", "open_dataset"]

_MODULES = {
    "Arrow": "formats.tables",
    "HDF5": "formats.hdf5",
    "Parquet": "formats.tables",
    "Tar": "formats.tar",
    "TokenFile": "formats.token_file",
    "mix": "mixing",
    "open_dataset": "formats.opening",
}


def __getattr__(name: str) -> object:
    # Lazily, because the process that fetches objects is in this package, and needs no torch.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
