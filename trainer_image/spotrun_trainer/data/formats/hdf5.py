"""HDF5: arrays of which the first dimension counts the samples.

Arrays with the same layout in the file as in memory are mapped. Arrays in chunks, or compressed,
are written once into such a file in the node's cache.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from spotrun_trainer.data.formats.column_dataset import ColumnDataset, check_columns
from spotrun_trainer.data.formats.columns import tensor
from spotrun_trainer.data.formats.local_files import Form, Source
from spotrun_trainer.data.places import Shard
from spotrun_trainer.data.places.manifest import Facts

_COPY_BYTES = 32 << 20


class HDF5(ColumnDataset):
    """Rows of arrays, each a dict by the array's name; "/" is between the names of groups.

    columns     only these arrays; default: all. They have the same length, and hold numbers
    """

    suffixes = (".h5", ".hdf5")

    @override
    def _check_package(self) -> None:
        _h5py()

    @override
    def _describe(self, shard: Shard) -> Facts:
        columns = self._columns

        def describe(source: Source, target: Path) -> None:
            where = source.place.where(source.shard.name)
            target.write_text(json.dumps(_facts(source.path(), columns, where)))

        form = Form(f"facts of hdf5 1, {json.dumps(columns)}", describe, keeps_source=True)
        with self._files.open(shard, form).file as file:
            facts: Facts = json.loads(file.read())
        return facts

    @override
    def _form(self, shard: Shard, facts: Facts) -> Form | None:
        if facts.get("is_mapped"):
            return None
        columns = self._columns

        def lay_out(source: Source, target: Path) -> None:
            _lay_out(source.path(), target, columns)

        return Form(f"contiguous hdf5 1, {json.dumps(columns)}", lay_out)

    @override
    def _read(self, shard: Shard, facts: Facts) -> "_Rows":
        opened = self._files.open(shard, self._form(shard, facts))
        with _h5py().File(opened.path, "r") as file:
            places = {
                name: (array.id.get_offset(), array.dtype, array.shape)
                for name, array in _arrays(file, self._columns, self._named(shard)).items()
            }
        return _Rows(opened.mapped(), places)


class _Rows:
    def __init__(self, mapped: Any, places: Mapping[str, Any]) -> None:  # noqa: ANN401 - a buffer
        self._columns = {
            name: np.frombuffer(mapped, dtype, int(np.prod(shape)), offset).reshape(shape)
            if all(shape)
            else np.empty(shape, dtype)
            for name, (offset, dtype, shape) in places.items()
        }

    def __getitem__(self, index: int, /) -> dict[str, object]:
        return {
            name: tensor(values[index : index + 1])[0] for name, values in self._columns.items()
        }


def _facts(path: Path, columns: Sequence[str] | None, where: str) -> dict[str, object]:
    try:
        file = _h5py().File(path, "r")
    except OSError as error:
        raise ValueError(f"{where} is not an HDF5 file: {error}") from error
    with file:
        arrays = _arrays(file, columns, where)
        lengths = {name: array.shape[0] for name, array in arrays.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(
                f"the arrays of {where} differ in length ({lengths}): choose arrays of the same "
                "length with columns=[...]"
            )
        is_mapped = all(_is_mapped(array) for array in arrays.values())
        return {"samples": next(iter(lengths.values())), "is_mapped": is_mapped}


def _arrays(file: Any, columns: Sequence[str] | None, where: str) -> dict[str, Any]:  # noqa: ANN401
    h5py, found = _h5py(), dict[str, Any]()

    def visit(name: str, thing: object) -> None:
        if isinstance(thing, h5py.Dataset) and thing.shape and thing.dtype.kind in "iufb":
            found[name] = thing

    file.visititems(visit)
    check_columns(columns, sorted(found), where)
    chosen = {name: found[name] for name in columns or sorted(found)}
    for name, array in chosen.items():
        if array.is_virtual or array.external:  # if such a file is missing HDF5 gives zeros
            raise ValueError(f"{name} of {where} is stored in other files: write it into this file")
    return chosen


def _is_mapped(array: Any) -> bool:  # noqa: ANN401 - of h5py
    return array.chunks is None and array.id.get_offset() is not None and array.dtype.isnative


def _lay_out(path: Path, target: Path, columns: Sequence[str] | None) -> None:
    h5py = _h5py()
    with h5py.File(path, "r") as file, h5py.File(target, "x") as out:
        for name, array in _arrays(file, columns, "").items():
            dtype = array.dtype.newbyteorder("=")
            laid = out.create_dataset(name, array.shape, dtype)
            rows = max(1, _COPY_BYTES // max(1, array.nbytes // max(1, len(array))))
            for start in range(0, len(array), rows):
                laid[start : start + rows] = array[start : start + rows]


def _h5py() -> Any:  # noqa: ANN401 - a module that may not be there
    try:
        import h5py  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ValueError("HDF5 needs the package h5py: pip install 'spotrun[data]'") from error
    return h5py
