"""All data formats compared with a raw memmap, in tokens per second; and the cache after a loss.

The same tokens, in samples of 2,048, are read in the same order by the same loader with 4 loader
processes, as tensors of int64, from each format in a folder; `memmap` is a dataset of ten lines
with numpy. The formats and the memmap take turns. Rates are of a second pass: the first one unpacks
compressed data into the cache of the node (`data_first_pass_ratio`). `data_format_cpu_ratio` is the
same by CPU time of all processes, with and without loader processes. A user's own dataset is seeded
before each sample; a format without `transform` is not.

Then the same with a real S3 server: loader processes are killed, others begin with the cache that
the node still has, and `data_cache_hits` is the share of shards that need not be fetched again.
`data_first_samples_seconds`: the time of 64 samples on a node without a cache, at once and 2 s
after a process opened the data that knows from which position its training continues.

Run as `.venv/bin/python bench/data_formats.py [--quick]`.
"""

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from typing_extensions import override

from bench.operator_bench import say
from devcluster.s3.server import serving
from spotrun_trainer.data import HDF5, Arrow, Parquet, Tar, TokenFile, mix
from spotrun_trainer.data.cache.first_shards import FirstShards, Position
from spotrun_trainer.data.cache.settings import node_cache
from spotrun_trainer.data.formats.zstd import FRAME_BYTES, write_frames
from spotrun_trainer.data.order.sharding import Share, block_of
from spotrun_trainer.data.order.shuffle import Order
from spotrun_trainer.data.source import open_source

LENGTH, SHARDS, MICROBATCH = 2048, 8, 8
WORKERS = 4


class Memmap(Dataset[Tensor]):
    """Windows of one file, as in a simple training script."""

    def __init__(self, path: Path) -> None:
        self._tokens = np.memmap(path, np.uint16, "r")

    def __len__(self) -> int:
        return len(self._tokens) // LENGTH

    @override
    def __getitem__(self, index: int) -> Tensor:
        window = self._tokens[index * LENGTH : (index + 1) * LENGTH]
        return torch.from_numpy(window.astype(np.int64))


def make_all(folder: Path, tokens: int) -> None:
    """Write the same tokens in every format."""
    rows = max(1, tokens // SHARDS // LENGTH)
    generator = np.random.default_rng(1)
    # As in texts: some tokens are frequent, so that compression has an effect.
    whole = generator.zipf(1.3, (SHARDS, rows, LENGTH)).clip(0, 50_000).astype(np.uint16)
    for name in ("tokens", "zstd", "parquet", "arrow", "tar", "hdf5", "chunks"):
        (folder / name).mkdir()
    whole.tofile(folder / "whole.bin")
    for number, shard in enumerate(whole):
        _make(folder, f"{number}", shard)


def _make(folder: Path, name: str, shard: "np.ndarray[Any, Any]") -> None:
    content = shard.tobytes()
    (folder / "tokens" / f"{name}.bin").write_bytes(content)
    with (folder / "zstd" / f"{name}.bin.zst").open("wb") as file:
        write_frames((content[at : at + FRAME_BYTES] for at in range(0, len(content), FRAME_BYTES)),
                     file)  # fmt: skip
    kind = pa.list_(pa.uint16(), LENGTH)
    rows = pa.FixedSizeListArray.from_arrays(pa.array(shard.ravel()), type=kind)
    table = pa.table({"tokens": rows})
    pq.write_table(table, folder / "parquet" / f"{name}.parquet", row_group_size=512)
    with pa.ipc.new_file(str(folder / "arrow" / f"{name}.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=512)
    _make_tar(folder / "tar" / f"{name}.tar", shard)
    with h5py.File(folder / "hdf5" / f"{name}.h5", "w") as file:
        file["tokens"] = shard
    with h5py.File(folder / "chunks" / f"{name}.h5", "w") as file:
        file.create_dataset("tokens", data=shard, chunks=True, compression="gzip")


def _make_tar(path: Path, shard: "np.ndarray[Any, Any]") -> None:
    import io  # noqa: PLC0415
    import tarfile  # noqa: PLC0415

    with tarfile.open(path, "w") as tar:
        for number, row in enumerate(shard):
            member = tarfile.TarInfo(f"{number:06}.tok")
            member.size = row.nbytes
            tar.addfile(member, io.BytesIO(row.tobytes()))


def of_member(sample: Mapping[str, bytes]) -> Tensor:
    return torch.from_numpy(np.frombuffer(sample["tok"], np.uint16).astype(np.int64))


OPENERS: Mapping[str, Callable[[Path], Any]] = {
    "tokens": lambda folder: TokenFile(folder / "tokens", length=LENGTH),
    "zstd": lambda folder: TokenFile(folder / "zstd", length=LENGTH),
    "parquet": lambda folder: Parquet(folder / "parquet"),
    "arrow": lambda folder: Arrow(folder / "arrow"),
    "tar": lambda folder: Tar(folder / "tar", transform=of_member),
    "hdf5": lambda folder: HDF5(folder / "hdf5"),
    "hdf5 in chunks": lambda folder: HDF5(folder / "chunks"),
    "mix": lambda folder: mix(
        [TokenFile(folder / one, length=LENGTH) for one in ("tokens", "zstd")], [2, 1]
    ),
}


class Reading:
    """A dataset that loader processes read, some microbatches at a time."""

    def __init__(
        self,
        dataset: Any,  # noqa: ANN401 - any dataset
        workers: int = WORKERS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._source = open_source(dataset, microbatch=MICROBATCH, seed=1, num_workers=workers)
        self._clock = clock
        self._start = 0

    def rate(self, microbatches: int) -> float:
        """Return the tokens per second over this number of microbatches."""
        size = microbatches * MICROBATCH
        began = self._clock()
        for _ in self._source.microbatches(block_of(self._start, size, MICROBATCH, Share())):
            pass
        self._start += size
        return size * LENGTH / (self._clock() - began)

    def close(self) -> None:
        self._source.close()


class Torchs:
    """The memmap in torch's own DataLoader, in a precomputed shuffled order."""

    def __init__(self, dataset: Memmap, microbatches: int) -> None:
        order = Order(len(dataset), seed=1, shuffle=True)
        indices = [order.sample(number).index for number in range(microbatches * MICROBATCH)]
        self._batches = iter(DataLoader(dataset, MICROBATCH, sampler=indices, num_workers=WORKERS))

    def rate(self, microbatches: int) -> float:
        began = time.perf_counter()
        for _ in range(microbatches):
            next(self._batches)
        return microbatches * MICROBATCH * LENGTH / (time.perf_counter() - began)

    def close(self) -> None:
        del self._batches


def measure_formats(folder: Path, tokens: int, turns: int) -> None:
    """Measure each format in turns with the memmap."""
    make_all(folder, tokens)
    stretch = max(WORKERS, tokens // LENGTH // MICROBATCH // 2)
    for name, open_it in OPENERS.items():
        memmap, ours = Reading(Memmap(folder / "whole.bin")), Reading(open_it(folder))
        raw = memmap.rate(stretch)
        first = ours.rate(stretch)  # half an epoch, in which the shards are unpacked
        say("data_first_pass_ratio", first / raw, "x", format=name)
        ours.rate(stretch), memmap.rate(stretch)
        pairs = [(ours.rate(stretch), memmap.rate(stretch)) for _ in range(turns)]
        say("data_tokens_per_second", [one for one, _ in pairs], "1/s", format=name)
        ratios = [one / other for one, other in pairs]
        say("data_format_ratio", ratios, "x", format=name, workers=WORKERS)
        memmap.close()
        ours.close()
    memmap, torchs = (
        Reading(Memmap(folder / "whole.bin")),
        Torchs(Memmap(folder / "whole.bin"), stretch * (turns + 1)),
    )
    memmap.rate(stretch), torchs.rate(stretch)
    pairs = [(memmap.rate(stretch), torchs.rate(stretch)) for _ in range(turns)]
    ratios = [one / other for one, other in pairs]
    say("data_memmap_ratio_to_dataloader", ratios, "x", workers=WORKERS)
    memmap.close()
    torchs.close()


def cpu_seconds() -> float:
    """Return the CPU time of this process, of its children, and of their threads, so far.

    The kernel may update the values of other processes late, so a short measurement uses its own.
    """
    children = Path("/proc/self/task").glob("*/children")
    pids = [pid for one in children for pid in one.read_text().split()]
    threads = (one for pid in pids for one in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return time.process_time() + sum(int(one.read_text().split()[0]) for one in threads) / 1e9


def measure_cpu(folder: Path, tokens: int, turns: int, workers: int) -> None:
    """Measure tokens per CPU second of all processes, which hardly depends on other work."""
    stretch = max(WORKERS, tokens // LENGTH // MICROBATCH // 2)
    for name, open_it in OPENERS.items():
        datasets = Memmap(folder / "whole.bin"), open_it(folder)
        readings = [Reading(one, workers, cpu_seconds) for one in datasets]
        for reading in readings:
            reading.rate(2 * stretch)
        rates = [[reading.rate(stretch) for reading in readings] for _ in range(turns)]
        ratios = [ours / memmap for memmap, ours in rates]
        say("data_format_cpu_ratio", ratios, "x", format=name, workers=workers)
        for reading in readings:
            reading.close()


def measure_cache(folder: Path, tokens: int) -> None:
    """Kill processes that read from a store, and read the same in new processes of the node."""
    rows = max(1, tokens // SHARDS // LENGTH)
    with serving(folder / "s3") as server:
        os.environ.update(server.environment())
        server.make_bucket("bucket")
        (server.folder / "bucket/tokens").mkdir()
        for number in range(SHARDS):
            shard = np.full(rows * LENGTH, number, np.uint16)
            shard.tofile(server.folder / f"bucket/tokens/{number}.bin")
        fork = get_context("fork")
        told, tells = fork.Pipe(duplex=False)
        for is_killed in (True, False):
            process = fork.Process(target=read_all, args=(rows * SHARDS, tells))
            process.start()
            hits, misses, seconds = told.recv()
            if is_killed:
                assert process.pid is not None
                os.kill(process.pid, signal.SIGKILL)
            process.join()
            say("data_epoch_seconds", seconds, "s", is_first=is_killed)
        say("data_cache_hits", 100 * hits / (hits + misses), "%", shards=SHARDS)
        for model_seconds in (0.0, min(2.0, tokens / 1e6)):
            seconds = [read_first(folder / f"cache-{n}", model_seconds) for n in range(3)]
            facts = {"preloaded_for": model_seconds, "shards": SHARDS, "mb": tokens * 2 / 1e6}
            say("data_first_samples_seconds", seconds, "s", **facts)


def read_first(cache: Path, model_seconds: float) -> float:
    """Return the seconds of the first samples, after a time in which shards are prefetched."""
    with patch.dict(os.environ, SPOTRUN_DATA_CACHE=f"{cache}-{model_seconds}"):
        data, first = TokenFile("s3://bucket/tokens", length=LENGTH), FirstShards()
        order = data.order(1, shuffle=True)
        if model_seconds:
            first.look_up(lambda: Position(0, order.state()))
            first.opened(data)
            time.sleep(model_seconds)
        first.end()
        began = time.perf_counter()
        for number in range(64):
            data[order.sample(number).index]
        return time.perf_counter() - began


def read_all(samples: int, tells: Any) -> None:  # noqa: ANN401 - a connection
    """Read an epoch in this process; reports how many shards were in the cache."""
    began = time.perf_counter()
    dataset, cache = TokenFile("s3://bucket/tokens", length=LENGTH), node_cache()
    cache.hits = cache.misses = 0
    source = open_source(dataset, microbatch=1, seed=1, num_workers=0)
    for _ in source.microbatches(block_of(0, samples, 1, Share())):
        pass
    tells.send((cache.hits, cache.misses, time.perf_counter() - began))
    source.close()
    time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few tokens, one turn")
    is_quick = parser.parse_args().quick
    torch.set_num_threads(1)
    tokens = 300_000 if is_quick else 8_000_000
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPOTRUN_DATA_CACHE"] = f"{folder}/cache"
        measure_formats(Path(folder), tokens, turns=1 if is_quick else 5)
        for workers in (0, WORKERS):
            measure_cpu(Path(folder), tokens, turns=1 if is_quick else 5, workers=workers)
        measure_cache(Path(folder), tokens if is_quick else 20 * tokens)


if __name__ == "__main__":
    main()
