"""Map-style datasets: samples are fetched by index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch.utils.data import Subset, TensorDataset, default_collate

from spotrun_trainer.data.load import Collate, Json, Load, Loaded, Request, add_note, collated
from spotrun_trainer.data.order.orders import OwnOrder, SampleOrder, order_of
from spotrun_trainer.data.order.seeds import sample_seed, seed_generators
from spotrun_trainer.data.order.shuffle import Sample

FetchAll = Callable[[list[int]], Sequence[object]]


class MapDataset(Protocol):
    """A map-style dataset; it may have `__getitems__` as well, for several samples at once."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> object: ...


class FromMap:
    """The feed of a map-style dataset: its state is only the order and the seed."""

    follows_requests = True

    def __init__(self, dataset: MapDataset, *, seed: int, shuffle: bool, collate: Collate) -> None:
        self._dataset = dataset
        self.length = length_of(dataset)
        self._order = order_of(dataset, self.length, seed=seed, shuffle=shuffle)
        self._collate = collate

    def check(self) -> None:
        if (length := length_of(self._dataset)) != self.length:
            raise ValueError(
                f"the dataset had {self.length} samples when the training began, but has {length} "
                "now: their order depends on their number, so it must not change"
            )

    def load(self) -> Load:
        draws = self._collate is not default_collate or may_draw(self._dataset)
        return LoadFromMap(self._dataset, self._order, self._collate, draws)

    def note(self, loaded: Loaded, floor: int) -> None:
        """Do nothing: a map-style dataset has no position."""

    def state(self) -> dict[str, Json]:
        return self._order.state()

    def restore(self, state: dict[str, Json], start: int) -> None:
        """Refuse a training with another order; everything else follows from `start`."""
        now = self.state()
        if changed := [name for name in {**state, **now} if state.get(name) != now.get(name)]:
            was, is_now = (
                ", ".join(f"{name} {values.get(name)}" for name in changed)
                for values in (state, now)
            )
            raise ValueError(
                f"the checkpoint was made with other data: {was} then, {is_now} now. To continue "
                f"at sample {start} would repeat some samples of the epoch and leave out others. "
                "Continue with the same data, or begin a new training"
            )


@dataclass(frozen=True)
class LoadFromMap:
    """Loads microbatches of a map-style dataset: a pure function of the request."""

    dataset: MapDataset
    order: SampleOrder
    collate: Collate
    draws: bool

    def __call__(self, request: Request) -> Loaded:
        self._look_ahead(request)
        numbers = range(request.first, request.first + request.size)
        samples = [self.order.sample(number) for number in numbers]
        fetch_all = list_fetcher(self.dataset)
        values = self._together(samples, fetch_all) if fetch_all else self._one_by_one(samples)
        return Loaded(collated(self.collate, values, f"{indices_of(samples)} of the dataset"))

    def _look_ahead(self, request: Request) -> None:
        if isinstance(self.dataset, OwnOrder) and (lead := self.dataset.lead):
            self.dataset.expect(self.order.sample(request.first + lead).index)

    def _one_by_one(self, samples: Sequence[Sample]) -> list[object]:
        return [self._value(sample) for sample in samples]

    def _value(self, sample: Sample) -> object:
        self._seed(sample)
        try:
            return self.dataset[sample.index]
        except Exception as error:
            add_note(error, f"dataset[{sample.index}] raised this in epoch {sample.epoch}.")
            raise

    def _together(self, samples: Sequence[Sample], fetch_all: FetchAll) -> list[object]:
        indices = indices_of(samples)
        self._seed(samples[0])
        try:
            values = list(fetch_all(indices))
        except Exception as error:
            add_note(error, f"dataset.__getitems__({indices}) raised this.")
            raise
        if len(values) != len(indices):
            raise ValueError(
                f"dataset.__getitems__({indices}) gave {len(values)} samples: it must give one for "
                "each index, in the order of the indices"
            )
        return values

    def _seed(self, sample: Sample) -> None:
        if self.draws:
            seed_generators(sample_seed(self.order.seed, sample.epoch, sample.index))


def list_fetcher(dataset: MapDataset) -> FetchAll | None:
    """Return the dataset's `__getitems__`, to fetch several samples at once, if it has one.

    Every Subset has one; if the dataset below has none, it fetches the samples one by one. Then we
    do that ourselves, so that each sample has random numbers of its own.
    """
    innermost: object = dataset
    while isinstance(innermost, Subset):
        innermost = innermost.dataset
    if not hasattr(innermost, "__getitems__"):
        return None
    fetch_all: FetchAll | None = getattr(dataset, "__getitems__", None)
    return fetch_all


def is_in_memory(dataset: object) -> bool:
    """Whether samples are only looked up: no work for a worker, and no random numbers."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) in {TensorDataset, list, tuple}


def may_draw(dataset: object) -> bool:
    """Whether fetching a sample may need random numbers."""
    return dataset.draws if isinstance(dataset, OwnOrder) else not is_in_memory(dataset)


def indices_of(samples: Sequence[Sample]) -> list[int]:
    return [sample.index for sample in samples]


def length_of(dataset: MapDataset) -> int:
    """Return the dataset's length; raises ValueError if it is empty."""
    length = len(dataset)
    if length == 0:
        raise ValueError("the dataset is empty: len(dataset) is 0, so there is nothing to train on")
    return length
