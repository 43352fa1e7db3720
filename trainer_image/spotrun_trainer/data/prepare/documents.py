"""The texts in files: plain text, JSON lines and Parquet."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spotrun_trainer.data.formats.column_dataset import check_columns
from spotrun_trainer.data.formats.pyarrow_module import load

TEXTS, LINES, TABLES = (".txt", ".text", ".md"), (".jsonl", ".ndjson", ".json"), (".parquet",)
SUFFIXES = (*TEXTS, *LINES, *TABLES)

_ROWS = 1024


@dataclass(frozen=True)
class Piece:
    """An input file, or the lines of it that begin in a part of it."""

    name: str
    path: str
    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        """Return how many bytes of the file it has."""
        return self.stop - self.start


def documents(piece: Piece, column: str) -> Iterator[str]:
    """Yield the texts of a piece; raises ValueError, which names the place, if one is missing."""
    if piece.name.endswith(TEXTS):
        yield _text(piece)
    elif piece.name.endswith(LINES):
        yield from _of_lines(piece, column)
    else:
        yield from _of_table(piece, column)


def _text(piece: Piece) -> str:
    try:
        return Path(piece.path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{piece.path} is not text in UTF-8: {error}") from error


def _of_lines(piece: Piece, column: str) -> Iterator[str]:
    with Path(piece.path).open("rb") as file:
        if piece.start:
            file.seek(piece.start - 1)
            file.readline()  # it belongs to the previous piece
        while (place := file.tell()) < piece.stop and (line := file.readline()):
            if line.strip():
                yield _value(line, column, f"{piece.path}, at byte {place}")


def _value(line: bytes, column: str, where: str) -> str:
    try:
        read = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where}: a line is not JSON: {error}") from error
    value = read.get(column) if isinstance(read, dict) else read
    if isinstance(value, str):
        return value
    has = f"it has {', '.join(map(str, read))}" if isinstance(read, dict) else "it is not an object"
    raise ValueError(
        f"{where}: a line has no text {column!r} ({has}): choose the column with --column"
    )


def _of_table(piece: Piece, column: str) -> Iterator[str]:
    arrow = load()
    try:
        file = arrow.parquet.ParquetFile(os.fspath(piece.path))
    except arrow.ArrowInvalid as error:
        raise ValueError(f"{piece.path} cannot be read: {error}") from error
    with file:
        check_columns([column], file.schema_arrow.names, piece.path)
        for batch in file.iter_batches(_ROWS, columns=[column]):
            for value in batch.column(0).to_pylist():
                yield _cell(value, f"{piece.path}: a row of {column!r}")


def _cell(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{where} is {value!r}, which is not text")
