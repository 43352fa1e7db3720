"""Iterable datasets: one logical stream, of which each process keeps its own microbatches."""

import json
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any

from spotrun_trainer.data.load import (
    Collate,
    Json,
    Load,
    Loaded,
    Request,
    Snapshot,
    add_note,
    collated,
)
from spotrun_trainer.data.order.seeds import sample_seed, seed_generators


class FromStream:
    """The feed of an iterable dataset.

    Every process reads the whole stream and keeps the samples dealt to it. So reading must be cheap
    compared to training: its cost does not shrink as the world grows. With `state_dict` and
    `load_state_dict` a restored training continues after reading less than two steps again; without
    them it reads everything again from the beginning, and logs that.

    What `state_dict()` gives between two samples must be JSON. A dataset that loads it and is then
    iterated over must continue with the second sample. At its end the stream starts again, after
    `set_epoch(epoch)` if it has that.
    """

    follows_requests = False

    def __init__(self, dataset: Iterable[object], *, seed: int, collate: Collate) -> None:
        self.length = _length_of(dataset)
        self._dataset = dataset
        self._seed = seed
        self._collate = collate
        self._floor = 0
        self._snapshots = Snapshots(Snapshot(position=0, epoch=0, state=None))

    def check(self) -> None:
        """Accept any stream: it has no length or order that could change."""

    def load(self) -> Load:
        start = self._snapshots.newest(self._floor)
        return LoadFromStream(self._dataset, seed=self._seed, collate=self._collate, start=start)

    def note(self, loaded: Loaded, floor: int) -> None:
        if loaded.snapshot:
            self._floor = floor
            self._snapshots.add(loaded.snapshot)
            self._snapshots.forget_before(floor)

    def state(self) -> dict[str, Json]:
        newest = self._snapshots.newest(self._floor)
        state: Json = json.loads(newest.state) if newest.state else None
        return {"position": newest.position, "epoch": newest.epoch, "state": state}

    def restore(self, state: dict[str, Json], start: int) -> None:
        match state:
            case {"position": int(position), "epoch": int(epoch), "state": of_dataset}:
                snapshot = Snapshot(position, epoch, json.dumps(of_dataset) if of_dataset else None)
            case _:
                raise ValueError(
                    "the checkpoint was made with a dataset that is not a stream, but this one is "
                    "iterable: continue with the same data, or begin a new training"
                )
        if not is_stateful(self._dataset):
            if snapshot.state:
                raise ValueError(
                    "the checkpoint holds the state of an iterable dataset, and this dataset has "
                    "no load_state_dict: continue with the same data, or begin a new training"
                )
            warnings.warn(
                f"the dataset has no state_dict: its first {start} samples are read again and "
                "dropped, to continue where the checkpoint was made",
                stacklevel=2,
            )
        self._floor = start
        self._snapshots = Snapshots(snapshot)


class Snapshots:
    """Snapshots of the stream to go back to: the first, and some later ones."""

    def __init__(self, start: Snapshot) -> None:
        self._start = start
        self._later: list[Snapshot] = []

    def newest(self, position: int) -> Snapshot:
        """Return the last snapshot from which `position` can be read."""
        before = [snapshot for snapshot in self._later if snapshot.position <= position]
        return before[-1] if before else self._start

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, and drop later ones, which come from an earlier pass over this part."""
        self._later = [past for past in self._later if past.position < snapshot.position]
        self._later.append(snapshot)

    def forget_before(self, position: int) -> None:
        """Drop the snapshots that are not needed to go back to `position`."""
        newest = self.newest(position)
        self._later = [kept for kept in self._later if kept.position >= newest.position]


class LoadFromStream:
    """Loads microbatches of a stream, which is read forwards; going back needs a snapshot."""

    draws = True

    def __init__(
        self, dataset: Iterable[object], *, seed: int, collate: Collate, start: Snapshot
    ) -> None:
        self.dataset: Any = dataset
        self._seed = seed
        self._collate = collate
        self._snapshots = Snapshots(start)
        self._iterator: Iterator[object] | None = None
        self._position = 0
        self._epoch = 0
        self._is_at_beginning = False

    def __call__(self, request: Request) -> Loaded:
        self._snapshots.forget_before(request.floor)
        try:
            if self._iterator is None or request.first < self._position:
                self._go_back(self._snapshots.newest(request.first))
            while self._position < request.first:
                self._next()
            snapshot = self._snapshot()
            values = [self._next() for _ in range(request.size)]
        except Exception:
            self._iterator = None  # a generator that has raised would seem exhausted
            raise
        samples = f"{request.first} to {request.first + request.size - 1} of the stream"
        return Loaded(collated(self._collate, values, samples), snapshot)

    def _go_back(self, snapshot: Snapshot) -> None:
        self._iterator = None  # runs a generator's `finally` before the state is loaded
        if snapshot.state:
            self.dataset.load_state_dict(json.loads(snapshot.state))
        elif is_stateful(self.dataset):
            # Keep the dataset's first state, because it may have a different one the next time.
            self._snapshots = Snapshots(snapshot._replace(state=_state_of(self.dataset)))
        self._position = snapshot.position
        self._begin_pass(snapshot.epoch)
        self._is_at_beginning = not snapshot.state

    def _begin_pass(self, epoch: int) -> None:
        self._epoch = epoch
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
        # So an order that __iter__ draws is the same in every process, and after a restore.
        seed_generators(sample_seed(self._seed, epoch, -1))
        self._iterator = iter(self.dataset)
        self._is_at_beginning = True

    def _next(self) -> object:
        """Return the next sample; at the end of the stream, the first of the next pass."""
        while True:
            seed_generators(sample_seed(self._seed, 0, self._position))
            assert self._iterator is not None
            try:
                value = next(self._iterator)
            except StopIteration:
                self._check_end()
                self._begin_pass(self._epoch + 1)
            except Exception as error:
                add_note(
                    error,
                    f"The dataset raised this instead of giving sample {self._position}"
                    f" of the stream, in epoch {self._epoch}.",
                )
                raise
            else:
                self._position += 1
                self._is_at_beginning = False
                return value

    def _check_end(self) -> None:
        if self._is_at_beginning:
            raise ValueError(
                f"the dataset gave {self._position} samples, but none when it was started again in"
                f" epoch {self._epoch}: __iter__ must start over each time it is called (a"
                " generator object cannot), or the training must end with the data"
            )

    def _snapshot(self) -> Snapshot | None:
        if not is_stateful(self.dataset):
            return None
        snapshot = Snapshot(self._position, self._epoch, _state_of(self.dataset))
        self._snapshots.add(snapshot)
        return snapshot


def _length_of(dataset: Iterable[object]) -> int | None:
    try:
        return len(dataset) if isinstance(dataset, Sized) else None
    except TypeError:  # a DataLoader asks its dataset, which may have no length
        return None


def is_stateful(dataset: object) -> bool:
    """Whether a stream can go back without being read again from the beginning."""
    return hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")


def _state_of(dataset: Any) -> str | None:  # noqa: ANN401 - a dataset with state_dict
    state = dataset.state_dict()
    if state is None:
        return None
    try:
        text = json.dumps(state)
        is_json = json.loads(text) == state
    except (TypeError, ValueError):
        is_json = False
    if not is_json:
        raise TypeError(
            f"the dataset's state_dict() is not JSON: {str(state)[:200]}. A checkpoint takes "
            "numbers, strings, lists, and dicts with strings as keys, but no tuples and no tensors"
        )
    return text
