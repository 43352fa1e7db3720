"""The common part of all datasets in shards: which sample is in which shard, and open shards."""

from abc import abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from typing_extensions import override

from spotrun_trainer.data.cache.first_shards import FIRST_SHARDS
from spotrun_trainer.data.formats.local_files import Form, LocalFiles
from spotrun_trainer.data.order.orders import OwnOrder
from spotrun_trainer.data.order.windows import WindowedOrder
from spotrun_trainer.data.places import Shard, open_place
from spotrun_trainer.data.places.manifest import NAME, Facts, Manifest, decoded

WINDOW = 1 << 16
"""The number of samples that are shuffled together; with 2,048 tokens of 16 bits they have 268
MB."""
MOST_OPEN = 64
_AT_ONCE = 8

Transform = Callable[[Any], object]


class Reader(Protocol):
    """A shard that is open."""

    def __getitem__(self, index: int, /) -> object: ...


class ShardedDataset(OwnOrder):
    """A map-style dataset whose samples lie in shards.

    where       a folder, a file, or a place in an object store: s3://bucket/prefix, gs://, az://
    window      the samples that are shuffled together: shards are shuffled as a whole, and then
                the samples of each window of this size; None: all, which reads at random places
    transform   a function of a sample, called by loader workers
    """

    suffixes: tuple[str, ...] = ()
    """The ends of the names of files that have this format."""

    def __init__(
        self,
        where: str | Path,
        *,
        window: int | None = WINDOW,
        transform: Transform | None = None,
    ) -> None:
        if window is not None and window < 1:
            raise ValueError(f"window={window}: give the number of samples, 1 or more, or None")
        place = open_place(where)
        self.where = place.where()
        self._files = LocalFiles(place)
        manifest = _manifest(place.read(NAME), place.where(NAME))
        self.settings: Facts = {} if manifest is None else manifest.settings
        self._shards = self._mine(place.shards() if manifest is None else manifest.shards)
        if manifest is not None:
            self._check_sizes()
        self._configure()
        self._facts = self._all_facts({} if manifest is None else manifest.facts)
        self._lengths = [self._length(shard, facts) for shard, facts in self.described()]
        self._ends = list(accumulate(self._lengths))
        self._window = window
        self._transform = transform
        self.draws = transform is not None
        self._open = OrderedDict[int, Reader]()
        is_fetched = any(not self._files.is_here(one, self._form_of(one)) for one in self._shards)
        self.lead = window if is_fetched and window is not None else 0
        FIRST_SHARDS.opened(self)

    @override
    def __len__(self) -> int:
        return self._ends[-1]

    @override
    def __getitem__(self, index: int, /) -> object:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        index %= len(self)
        number = bisect_right(self._ends, index)
        sample = self._reader(number)[index - self._ends[number] + self._lengths[number]]
        return sample if self._transform is None else self._transform(sample)

    @override
    def order(self, seed: int, *, shuffle: bool) -> WindowedOrder:
        """Return the order: shards are shuffled, then samples within windows."""
        return WindowedOrder(self._lengths, self._window, seed=seed, shuffle=shuffle)

    @override
    def expect(self, index: int) -> None:
        """Begin to fetch the shard of a sample."""
        shard = self._shards[self.part_of(index)]
        self._files.expect(shard, self._form_of(shard))

    @override
    def part_of(self, index: int) -> int:
        """Return the number of the shard of a sample."""
        return bisect_right(self._ends, index)

    @override
    def preload(self, index: int, most_bytes: int) -> int:
        """Fetch the shard of a sample, and return its bytes; 0 if there was nothing to do."""
        shard = self._shards[self.part_of(index)]
        return self._files.preload(shard, self._form_of(shard), most_bytes)

    def _check_sizes(self) -> None:
        """Raise ValueError for a shard of a folder whose size differs from its manifest."""
        for shard in self._shards:
            size = self._files.size(shard)
            if size != shard.num_bytes:
                raise ValueError(
                    f"{self._named(shard)} has {size} bytes, but {shard.num_bytes} in its "
                    "manifest: it was changed, or only partly copied. Copy it again, or run "
                    "`spotrun data index`"
                )

    def _configure(self) -> None:
        """Check arguments against the settings of a manifest."""

    @abstractmethod
    def _describe(self, shard: Shard) -> Facts:
        """Find the needed facts of a shard that no manifest describes."""

    def _length(self, shard: Shard, facts: Facts) -> int:
        """Return the number of samples in a shard."""
        samples = facts.get("samples")
        if isinstance(samples, int):
            return samples
        raise ValueError(f"the manifest has no number of samples for {self._named(shard)}")

    @abstractmethod
    def _form(self, shard: Shard, facts: Facts) -> Form | None:
        """Return the form that is read; None: the shard itself."""

    @abstractmethod
    def _read(self, shard: Shard, facts: Facts) -> Reader:
        """Open a shard."""

    def _form_of(self, shard: Shard) -> Form | None:
        return self._form(shard, self._facts[shard.name])

    def _named(self, shard: Shard) -> str:
        return f"{self.where}/{shard.name}"

    def _mine(self, shards: Sequence[Shard]) -> list[Shard]:
        mine = [one for one in shards if one.name.removesuffix(".zst").endswith(self.suffixes)]
        if not mine:
            ends = ", ".join(self.suffixes)
            raise ValueError(
                f"{self.where} has no {type(self).__name__} data: none of its {len(shards)} files "
                f"ends with {ends}, or with one of these and .zst"
            )
        return mine

    def _all_facts(self, known: dict[str, Facts] | Any) -> dict[str, Facts]:  # noqa: ANN401
        def facts_of(shard: Shard) -> Facts:
            return known.get(shard.name) or self._describe(shard)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(facts_of, self._shards))
        return {shard.name: facts for shard, facts in zip(self._shards, found, strict=True)}

    def described(self) -> list[tuple[Shard, Facts]]:
        """Return all shards, and the known facts of each."""
        return [(shard, self._facts[shard.name]) for shard in self._shards]

    def _reader(self, number: int) -> Reader:
        reader = self._open.get(number)
        if reader is None:
            shard = self._shards[number]
            reader = self._open[number] = self._read(shard, self._facts[shard.name])
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return reader

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (type(self), {**vars(self), "_open": OrderedDict()})


def _copied(kind: type[ShardedDataset], state: dict[str, Any]) -> ShardedDataset:
    """Return a dataset in a spawned process, which opens the shards itself."""
    dataset = kind.__new__(kind)
    vars(dataset).update(state)
    return dataset


def _manifest(content: bytes | None, where: str) -> Manifest | None:
    return None if content is None else decoded(content, where)
