"""Parquet and Arrow: rows of columns, mapped into memory as Arrow files.

A Parquet file is unpacked once, into an Arrow file in the node's cache: then any process finds any
row at once. The same is done with Arrow files that are streams, or compressed.
"""

import json
from pathlib import Path

from typing_extensions import override

from spotrun_trainer.data.formats import arrow_files
from spotrun_trainer.data.formats.arrow_files import Rows
from spotrun_trainer.data.formats.column_dataset import ColumnDataset
from spotrun_trainer.data.formats.local_files import Form, Source
from spotrun_trainer.data.formats.pyarrow_module import load
from spotrun_trainer.data.places import Shard
from spotrun_trainer.data.places.manifest import Facts


class _Table(ColumnDataset):
    _counted: Form
    """The form that holds, as JSON, the facts about a shard."""

    @override
    def _check_package(self) -> None:
        load()

    @override
    def _describe(self, shard: Shard) -> Facts:
        with self._files.open(shard, self._counted).file as file:
            facts: Facts = json.loads(file.read())
        return facts

    @override
    def _read(self, shard: Shard, facts: Facts) -> Rows:
        mapped = self._files.open(shard, self._form(shard, facts)).mapped()
        return Rows(mapped, self._columns, self._named(shard))


class Parquet(_Table):
    """Rows of Parquet files, each a dict by column.

    Numbers, and lists of them, are tensors; texts are str. A file is unpacked once per node.

    columns     only these; default: all
    """

    suffixes = (".parquet",)
    _counted = Form("rows of parquet 1", arrow_files.count_by_footer, keeps_source=True)

    @override
    def _form(self, shard: Shard, facts: Facts) -> Form | None:
        columns = self._columns

        def unpack(source: Source, target: Path) -> None:
            arrow_files.unpack_parquet(source, target, columns)

        return Form(f"arrow of parquet 1, {json.dumps(columns)}", unpack)


class Arrow(_Table):
    """Rows of Arrow files (also Feather, and those of Hugging Face's datasets), as of `Parquet`.

    columns     only these; default: all
    """

    suffixes = (".arrow", ".feather")
    _counted = Form("rows of arrow 1", arrow_files.count_batches, keeps_source=True)

    @override
    def _form(self, shard: Shard, facts: Facts) -> Form | None:
        return None if facts.get("is_mapped") else Form("arrow of arrow 1", arrow_files.rewrite)
