"""Opening a dataset by its place: the names of its files show the format."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spotrun_trainer.data.formats.dataset import ShardedDataset
from spotrun_trainer.data.formats.hdf5 import HDF5
from spotrun_trainer.data.formats.tables import Arrow, Parquet
from spotrun_trainer.data.formats.tar import Tar
from spotrun_trainer.data.formats.token_file import TokenFile
from spotrun_trainer.data.places import open_place
from spotrun_trainer.data.places.manifest import NAME, decoded

FORMATS: Mapping[str, type[ShardedDataset]] = {
    "tokens": TokenFile,
    "parquet": Parquet,
    "arrow": Arrow,
    "tar": Tar,
    "hdf5": HDF5,
}


def open_dataset(where: str | Path, **options: Any) -> ShardedDataset:  # noqa: ANN401
    """Open the dataset in a folder, a file, or a place in an object store.

        train = open_dataset("s3://bucket/tokens", length=1025)

    The format is that of the files there. The options are those of its class: TokenFile, Parquet,
    Arrow, Tar, HDF5.
    """
    return FORMATS[format_of(where)](where, **options)


def format_of(where: str | Path) -> str:
    """Return the name of the format that the files in a place have."""
    place = open_place(where)
    content = place.read(NAME)
    shards = place.shards() if content is None else decoded(content, place.where(NAME)).shards
    names = [one.name.removesuffix(".zst") for one in shards]
    found = [
        name for name, kind in FORMATS.items() if any(one.endswith(kind.suffixes) for one in names)
    ]
    if len(found) != 1:
        known = ", ".join(end for kind in FORMATS.values() for end in kind.suffixes)
        what = f"files of several formats ({', '.join(found)})" if found else "no data"
        raise ValueError(
            f"{place.where()} has {what} among its {len(shards)} files: the ends of names show the "
            f"format ({known}, each with .zst too); or use the class, such as TokenFile(...)"
        )
    return found[0]
