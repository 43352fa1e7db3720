"""Arrow files: made from Parquet and from streams, counted, and read by row."""

import json
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from spotrun_trainer.data.formats.column_dataset import check_columns
from spotrun_trainer.data.formats.columns import Column, column_of
from spotrun_trainer.data.formats.local_files import Source
from spotrun_trainer.data.formats.pyarrow_module import load

ROWS = 4096
"""Rows in a batch of an unpacked file."""
_TAIL_BYTES = 1 << 18
_FILE, _PARQUET = b"ARROW1", b"PAR1"


class Rows:
    """An Arrow file in memory; the columns of a batch are read when its first row is read."""

    def __init__(self, mapped: object, columns: Sequence[str] | None, where: str) -> None:
        arrow = load()
        with _naming(where):
            self._file = arrow.ipc.open_file(arrow.py_buffer(mapped))
            self._names = columns or self._file.schema.names
            check_columns(columns, self._file.schema.names, where)
            count = self._file.num_record_batches
            sizes = [self._file.get_batch(number).num_rows for number in range(count)]
        self._ends = list(accumulate(sizes))
        self._sizes = sizes
        self._columns: list[Sequence[tuple[str, Column]] | None] = [None] * count

    def __getitem__(self, index: int, /) -> dict[str, object]:
        number = bisect_right(self._ends, index)
        columns = self._columns[number]
        if columns is None:
            batch = self._file.get_batch(number)
            columns = [(name, column_of(batch.column(name))) for name in self._names]
            self._columns[number] = columns
        row = index - self._ends[number] + self._sizes[number]
        return {name: column(row) for name, column in columns}


def count_by_footer(source: Source, target: Path) -> None:
    """Count the rows of a Parquet file by its footer: the rest need not be fetched."""
    arrow = load()
    where, size = source.place.where(source.shard.name), source.shard.num_bytes
    tail = source.place.tail(source.shard, _TAIL_BYTES)
    with _naming(where):
        if tail[-4:] != _PARQUET:
            raise ValueError(f"{where} is not a Parquet file: it does not end as one")
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if length > len(tail):
            tail = source.place.tail(source.shard, min(length, size))
        with target.open("xb") as file:  # the part that is not read is a hole
            file.seek(size - len(tail))
            file.write(tail)
        rows = arrow.parquet.read_metadata(target).num_rows
    target.write_text(json.dumps({"samples": rows}))


def unpack_parquet(source: Source, target: Path, columns: Sequence[str] | None) -> None:
    """Write the rows of a Parquet file as an Arrow file."""
    arrow, where = load(), source.place.where(source.shard.name)
    with _naming(where), arrow.parquet.ParquetFile(source.path()) as file:
        check_columns(columns, file.schema_arrow.names, where)
        schema = file.schema_arrow
        if columns is not None:
            schema = arrow.schema([schema.field(name) for name in schema.names if name in columns])
        _write(source, target, schema, file.iter_batches(ROWS, columns=columns))


def _without_dictionaries(schema: Any) -> Any:  # noqa: ANN401 - of pyarrow
    """Return a schema with plain values: a file has one dictionary for all batches, or none."""
    arrow = load()
    for number, field in enumerate(schema):
        if arrow.types.is_dictionary(field.type):
            schema = schema.set(number, field.with_type(field.type.value_type))
    return schema


def count_batches(source: Source, target: Path) -> None:
    """Count the rows of an Arrow file, and check whether it can be mapped as it is."""
    with _naming(source.place.where(source.shard.name)), opened(source.path()) as batches:
        rows = sum(batch.num_rows for batch in batches)
    facts = {"samples": rows, "is_mapped": _is_mapped(source.path())}
    target.write_text(json.dumps(facts))


def rewrite(source: Source, target: Path) -> None:
    """Write a stream, or a file of compressed batches, as a file that can be mapped."""
    with _naming(source.place.where(source.shard.name)), opened(source.path()) as batches:
        _write(source, target, batches.schema, batches)


class _Batches:
    """The batches of a file or stream, one after the other."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 - of pyarrow
        self._reader = reader
        self.schema = reader.schema

    def __iter__(self) -> Iterator[Any]:
        if hasattr(self._reader, "num_record_batches"):
            for number in range(self._reader.num_record_batches):
                yield self._reader.get_batch(number)
        else:
            yield from self._reader


@contextmanager
def opened(path: Path) -> Iterator[_Batches]:
    """Open an Arrow file, or a stream in a file."""
    arrow = load()
    with arrow.memory_map(os.fspath(path)) as file:
        is_file = file.read(len(_FILE)) == _FILE
        file.seek(0)
        reader = arrow.ipc.open_file(file) if is_file else arrow.ipc.open_stream(file)
        yield _Batches(reader)


def _is_mapped(path: Path) -> bool:
    """Whether the batches in a file have the same layout as in memory."""
    arrow = load()
    with path.open("rb") as file:
        if file.read(len(_FILE)) != _FILE:
            return False
    with arrow.memory_map(os.fspath(path)) as file:
        whole = file.read_buffer()
        reader = arrow.ipc.open_file(arrow.BufferReader(whole))
        first, last = whole.address, whole.address + whole.size
        for number in range(min(1, reader.num_record_batches)):
            for column in reader.get_batch(number).columns:
                for buffer in column.buffers():
                    if buffer and buffer.size and not first <= buffer.address < last:
                        return False
    return True


def _write(source: Source, target: Path, schema: Any, batches: Any) -> None:  # noqa: ANN401 - of pyarrow
    arrow, plain = load(), _without_dictionaries(schema)
    with arrow.OSFile(os.fspath(target), "wb") as to, arrow.ipc.new_file(to, plain) as out:
        for batch in batches:
            if plain is schema:
                out.write_batch(batch)
            else:
                for each in arrow.Table.from_batches([batch]).cast(plain).to_batches():
                    out.write_batch(each)
            source.check_fits(to.tell())


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Name the file in errors about its content."""
    arrow = load()
    try:
        yield
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, arrow.ArrowNotImplementedError) as error:
        raise ValueError(f"{where} cannot be read: {error}") from error
