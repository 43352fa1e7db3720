"""The checkpoints of a training in one place: the public class of this package."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from spotrun_trainer.checkpoint.format.completion import is_complete
from spotrun_trainer.checkpoint.format.digests import CRC32, SHA256
from spotrun_trainer.checkpoint.format.manifest import Content, read_manifest
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.preload import most_bytes, preload
from spotrun_trainer.checkpoint.format.reading.reader import Reader, load
from spotrun_trainer.checkpoint.format.reading.together import BY_ITSELF, Readers
from spotrun_trainer.checkpoint.format.shard_plan import Slice, plan
from spotrun_trainer.checkpoint.format.storage import FIRST_MANIFEST, Storage, Stored
from spotrun_trainer.checkpoint.format.writer import Part
from spotrun_trainer.checkpoint.places import open_storage
from spotrun_trainer.checkpoint.retention import superseded
from spotrun_trainer.checkpoint.saver import Saved, Saver
from spotrun_trainer.checkpoint.storage_retries import patiently, reading
from spotrun_trainer.process import threads
from spotrun_trainer.state.flatten import Flat, Spec
from spotrun_trainer.state.tracked import Tracked

PATIENCE_SECONDS = 600.0
"""Ranks write parts of equal size, so a rank that takes this much longer than another is lost."""


class Checkpoints:
    """Saves, finds, loads and prunes checkpoints; every rank has its own object, without a group.

    `attempt` is a token that all ranks of a world share and no earlier ones had. It matters where
    names repeat: outside spotrun every start is world 0, and a checkpoint that an earlier start
    left incomplete must not be completed by the next. A single rank needs no token.

    If `shards` ranks hold one copy of the model together, this one has part `shard`: it saves and
    loads that, and a checkpoint is complete with all parts. These ranks form `stages` equal groups
    with different layers. If the place is not shared, each rank saves its part by itself.
    """

    def __init__(
        self,
        place: str | Path | Storage,
        *,
        keep: int,
        attempt: str = "",
        patience_seconds: float = PATIENCE_SECONDS,
        shard: int = 0,
        shards: int = 1,
        stages: int = 1,
        is_shared: bool = True,
    ) -> None:
        if keep < 1:
            raise ValueError(f"the number of checkpoints to keep must be at least 1, not {keep}")
        self._place = open_storage(place) if isinstance(place, str | Path) else place
        self._keep = keep
        self._attempt = attempt
        self._shard = shard
        self._shards = shards
        self._stages = stages
        self._is_shared = is_shared
        self._alone = secrets.token_hex(8)
        self._saver = Saver(self._place, patience_seconds, is_shared=is_shared)
        self.preloaded_bytes = 0  # fetched already when the last checkpoint was loaded
        self._planned: tuple[Mapping[str, Spec], int, tuple[tuple[Slice, ...], ...]] = ({}, 0, ())

    @property
    def where(self) -> str:
        """The path or address of the checkpoints."""
        return self._place.where()

    def enter(self, attempt: str) -> None:
        """Enter another world, whose ranks share this token; stop waiting for ranks of the last."""
        self._attempt = attempt
        self._saver.wait_no_more()
        self._place.end_begun()

    def wait_no_more(self) -> None:
        """Give up the checkpoint in flight: another rank could not write its part."""
        self._saver.wait_no_more()

    def save(
        self,
        name: str,
        flat: Flat,
        *,
        rank: int,
        size: int,
        extra: Mapping[str, Any],
        parameters: Mapping[str, Sequence[Sequence[str]]] = {},
    ) -> None:
        """Begin to save this rank's part during training; one save at a time, a second one waits.

        Nothing may change the tensors until `before_change` has returned. Later errors are raised
        by `finished` or `wait`. `extra` is JSON, and the one of the first rank is kept.
        `parameters` are the names of the parameters that optimizers identify by number.
        """
        layout = flat.layout
        extra = json.loads(json.dumps(dict(extra), allow_nan=False))
        part = Part(
            name=Name.parse(name),
            attempt=self._attempt or (self._alone if size == 1 else ""),
            rank=rank,
            size=size,
            slices=self._plan(layout.specs, size // self._shards)[rank // self._shards],
            layout=layout.specs,
            content=Content(layout.specs, layout.aliases, flat.values, extra, parameters)
            if rank < self._shards
            else None,
            shards=self._shards,
            stages=self._stages,
            hashed_by=SHA256 if self._is_shared else CRC32,
        )
        self._saver.save(part, flat)

    @property
    def is_writing(self) -> bool:
        """Whether another save would wait until the previous one is written."""
        return self._saver.is_writing

    def before_change(self) -> None:
        """Return once the saved state is copied; call it right before an update."""
        self._saver.before_change()

    def finished(self) -> Saved | None:
        """The newest checkpoint that became durable since the last call.

        Raises CheckpointError, once, for a checkpoint that did not.
        """
        return self._saver.finished()

    def completed(self, name: str) -> None:
        """Note that a checkpoint is complete, by another rank's report; else this rank looks."""
        self._saver.completed(name)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is in flight; False if it took longer. Raises as `finished` does."""
        return self._saver.wait(seconds)

    def estimate_seconds(self, flat: Flat, *, size: int = 1) -> float:
        """Estimate the seconds that saving takes one of `size` ranks if training waits for it."""
        total = sum(spec.itemsize * spec.numel for spec in flat.specs().values())
        return self._saver.seconds_for(total * self._shards // size)

    def complete(self) -> list[str]:
        """List the complete checkpoints by their markers, newest first; content is not verified.

        Raises UnreadableCheckpointError if they cannot be listed: a caller that assumed none would
        train from scratch, and overwrite them.
        """
        return patiently(lambda: [str(one) for one in self._newest_first()])

    def complete_before(self, name: str) -> list[str]:
        """List the complete checkpoints that are older than `name`, which need not exist."""
        limit = Name.parse(name)
        return [one for one in self.complete() if Name.parse(one) < limit]

    def newest(self) -> str | None:
        """Return the newest complete checkpoint, or None."""
        return patiently(lambda: next(map(str, self._newest_first()), None))

    def load(
        self,
        name: str,
        tracked: Tracked,
        *,
        rank: int = 0,
        size: int = 1,
        readers: Readers = BY_ITSELF,
    ) -> dict[str, Any]:
        """Load a checkpoint, saved by any number of ranks, and return its `extra`.

        If torch divides the model (DTensor), it may have been saved by processes that divided it in
        another way. Then each of the `size` processes that load it together verifies different
        files. Processes that hold the same part may read it together; all of them call this, for
        the same name.

        Raises DamagedCheckpointError, naming file and reason: load another, because content is
        verified while it is read into the tracked tensors. Raises UnreadableCheckpointError if it
        could not be read for a minute, and ValueError, before anything is changed, if the
        checkpoint does not fit what is tracked.
        """
        one = Name.parse(name)
        reader = Reader(self._shard, self._shards, rank, size, self._stages, readers)
        try:
            if readers is not BY_ITSELF:  # they retry by themselves, all for the same file
                return load(self._place, one, tracked, reader)
            return patiently(lambda: load(self._place, one, tracked, reader))
        finally:
            self.preloaded_bytes = self._place.end_begun()

    def preload(self, name: str, *, rank: int, size: int, local_size: int) -> None:
        """Begin to fetch, in a thread, what this process is likely to read of a checkpoint."""
        reader = Reader(self._shard, self._shards, rank, size, self._stages)

        def run() -> None:
            with suppress(OSError, ValueError):  # `load` will get the same error, and report it
                preload(self._place, Name.parse(name), reader, most_bytes(local_size))

        threads.start(run, name="preload")

    def end_preload(self) -> None:
        """Discard what was fetched before: it will not be loaded."""
        self._place.end_begun()

    def extra_of(self, name: str) -> Mapping[str, Any]:
        """Return the extra values of a checkpoint without loading it; raises OSError, ValueError.

        They are not compared with any hash: use them only where wrong values do no harm.
        """
        content = read_manifest(self._place.read(Name.parse(name), FIRST_MANIFEST)).content
        return {} if content is None else content.extra

    def prune(self, acknowledged: str, *, world_number: int, keep: int | None = None) -> None:
        """Delete the checkpoints that an acknowledged one makes unnecessary, in this world.

        Fewer may be kept than the training asked for: `keep`.
        """
        found = {name: is_complete(self._place, name) for name in self._place.names()}
        kept = min(self._keep, keep or self._keep)
        for name in superseded(found, Name.parse(acknowledged), kept, world_number):
            self._place.remove(name)

    def stored(self) -> Stored | None:
        """Return what is in the place now; None if storage there is not billed by content."""
        return self._place.stored()

    def close(self) -> None:
        """End the thread after the part in flight is written."""
        self._saver.close()

    def _newest_first(self) -> Iterator[Name]:
        with reading(self._place.where()):
            names = self._place.names()
        for name in reversed(names):
            with reading(self._place.where(name)):
                counts = is_complete(self._place, name)
            if counts:
                yield name

    def _plan(self, layout: Mapping[str, Spec], size: int) -> tuple[tuple[Slice, ...], ...]:
        known, known_size, _ = self._planned
        if known_size != size or (known is not layout and known != layout):
            self._planned = (layout, size, plan(layout, size))
        return self._planned[2]
