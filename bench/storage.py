"""Checkpoints in S3: the cost of a save for the training, its speed, and its safety under faults.

With a real S3 server on this machine and real training steps of one process: 100 M parameters with
AdamW, 1.2 GB. `store_call_ms` and `store_step_ratio` are as in `bench/checkpoint.py`.
`store_save_ratio`, `store_restore_ratio`: the time of the best peer divided by ours, for equal
bytes in the same run, in turns. The peers are boto3's transfers and torch's distributed checkpoint
with s3torchconnector, if that is installed (it is not a dependency). `store_save_of_obstore`,
`store_restore_of_obstore`: the same for obstore alone, which neither hashes nor splits the data.

`store_save_cpu_ms_per_mb_...`, `store_restore_cpu_ms_per_mb_...`: the CPU time of client and server
together, which hardly depends on other work on the machine; with the server's part of it.

`store_lost`, `store_corrupt`: processes that are killed at random moments save through a proxy that
lets 10 % of all requests fail (503s, 500s, connections reset before and after, truncated answers).
These are the acknowledged saves that were not found again, and those that differ.

Run as `.venv/bin/python bench/storage.py [--quick] [--repeats 3] [--layers 12]
[--saves 200] [--seed 1]`.
"""

import argparse
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import obstore
import torch
from obstore.store import S3Store
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save as save_state

from bench.checkpoint import Found, Ours, Size, Training, own_group, save_beside
from bench.operator_bench import say
from bench.storage_chaos import survive
from devcluster.argument_types import how_many
from devcluster.s3.server import Server, serving
from spotrun_trainer.checkpoint.places.objects import PARALLEL_PARTS, PART_BYTES

try:
    from s3torchconnector.dcp import S3StorageReader, S3StorageWriter
except ModuleNotFoundError:
    S3StorageWriter = None

BUCKET = "bench"
WINDOW_SECONDS = 600.0


@dataclass(frozen=True)
class Cpu:
    """Seconds of CPU time, of this process and of the server."""

    client: float
    server: float

    def __sub__(self, before: "Cpu") -> "Cpu":
        return Cpu(self.client - before.client, self.server - before.server)


def cpu_seconds(server_pid: int) -> Cpu:
    """Return the CPU time that was used so far."""
    _, _, after_name = Path(f"/proc/{server_pid}/stat").read_text().rpartition(")")
    user, system = after_name.split()[11:13]
    server = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return Cpu(time.process_time(), server)


@dataclass(frozen=True)
class Way:
    """A way to save and to restore the same bytes."""

    save: Callable[[], object]
    restore: Callable[[], object]
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"save": [], "restore": []})
    cpu: dict[str, list[Cpu]] = field(default_factory=lambda: {"save": [], "restore": []})

    def run(self, server_pid: int) -> None:
        """Save and restore once."""
        for name, does in (("save", self.save), ("restore", self.restore)):
            began, before = time.perf_counter(), cpu_seconds(server_pid)
            does()
            self.seconds[name].append(time.perf_counter() - began)
            self.cpu[name].append(cpu_seconds(server_pid) - before)

    def typical(self, what: str) -> float:
        """Return the median of the measurements."""
        return statistics.median(self.seconds[what])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small model, once")
    parser.add_argument("--repeats", type=how_many, default=3)
    parser.add_argument("--layers", type=how_many, default=12, help="fewer need less memory")
    parser.add_argument("--saves", type=how_many, default=200)
    parser.add_argument("--seed", type=how_many, default=1)
    parser.add_argument("--only", choices=("speed", "trouble"))
    arguments = parser.parse_args()
    size = Size(layers=arguments.layers)
    if arguments.quick:
        size, arguments.repeats, arguments.saves = Size(128, 2, 2_000, 64), 1, 6
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "s3") as server:
        server.make_bucket(BUCKET)
        os.environ.update(server.environment())
        if arguments.only != "trouble":
            with own_group():
                measure(Training(size), server, arguments.repeats)
        if arguments.only != "speed":
            survive(server, f"s3://{BUCKET}/chaos", arguments.saves, arguments.seed)


def measure(training: Training, server: Server, repeats: int) -> None:
    """Measure the cost beside training, and then each way alone, in turns."""
    ours = Ours(training, f"s3://{BUCKET}/ours")
    facts = {"parameters": training.parameters, "threads": torch.get_num_threads()}
    training.step()
    save_beside(training, ours, Found())  # buffers are made once
    beside = Found()
    for _ in range(repeats):
        save_beside(training, ours, beside)
    say("store_call_ms", beside.call_ms, "ms", **facts)
    say("store_step_ratio", beside.ratio, "x", **facts)
    ways = ways_of(training, ours, server)
    for _ in range(repeats):
        for way in ways.values():
            way.run(server.pid)
    ours.checkpoints.close()
    megabytes = sum(one.nbytes for one in training.tracked.flatten().tensors.values()) / 1e6
    for what in ("save", "restore"):
        compare(what, ways, megabytes)


def compare(what: str, ways: Mapping[str, Way], megabytes: float) -> None:
    """Print the results of one direction."""
    for name, way in ways.items():
        speeds = [megabytes / one for one in way.seconds[what]]
        say(f"store_{what}_mb_per_second_{name}", speeds, "MB/s", megabytes=round(megabytes))
        used = [(one.client + one.server) / megabytes * 1000 for one in way.cpu[what]]
        of_server = statistics.median(one.server / megabytes * 1000 for one in way.cpu[what])
        say(f"store_{what}_cpu_ms_per_mb_{name}", used, "ms", server=round(of_server, 2))
    peers = {name: way.typical(what) for name, way in ways.items() if name in {"boto3", "dcp"}}
    best = min(peers, key=lambda name: peers[name])
    own = ways["ours"].typical(what)
    say(f"store_{what}_ratio", peers[best] / own, "x", peer=best)
    alone = min(way.typical(what) for name, way in ways.items() if name.startswith("obstore"))
    say(f"store_{what}_of_obstore", alone / own, "x")


def ways_of(training: Training, ours: Ours, server: Server) -> dict[str, Way]:
    """Return ours, obstore alone in two ways, boto3, and torch's own if it is installed."""

    def save() -> None:
        ours.call()
        assert ours.checkpoints.wait(WINDOW_SECONDS)
        assert ours.is_done()

    def restore() -> None:
        name = ours.checkpoints.newest()
        assert name
        ours.checkpoints.load(name, training.tracked)

    tensors = training.tracked.flatten().tensors.values()
    content = memoryview(bytes(sum(one.nbytes for one in tensors)))
    ways = {"ours": Way(save, restore), **obstore_alone(content), "boto3": boto(content, server)}
    if S3StorageWriter is not None:
        ways["dcp"] = of_torch(training)
    return ways


def obstore_alone(content: memoryview) -> dict[str, Way]:
    """Return ways to save the same bytes in equal parts, and to restore in one stream or parts."""
    store = S3Store(BUCKET, client_options={"allow_http": True, "timeout": "600s"})
    starts = range(0, len(content), PART_BYTES)
    ends = [min(start + PART_BYTES, len(content)) for start in starts]

    def save() -> None:
        parts = {"chunk_size": PART_BYTES, "max_concurrency": PARALLEL_PARTS}
        obstore.put(store, "alone", content, **parts)  # type: ignore[arg-type]

    def ranges() -> None:
        obstore.get_ranges(store, "alone", starts=[*starts], ends=ends)

    return {
        "obstore": Way(save, lambda: obstore.get(store, "alone").bytes()),
        "obstore_ranges": Way(save, ranges),
    }


def boto(content: memoryview, server: Server) -> Way:
    """boto3's managed transfers, with its defaults: parts of 8 MiB by ten threads."""
    client: Any = boto3.client("s3", endpoint_url=server.url)
    return Way(
        lambda: client.upload_fileobj(io.BytesIO(content), BUCKET, "boto3"),
        lambda: client.download_fileobj(BUCKET, "boto3", io.BytesIO()),
    )


def of_torch(training: Training) -> Way:
    """torch.distributed.checkpoint with s3torchconnector, which finds the server as we do."""
    place = {"region": "us-east-1", "path": f"s3://{BUCKET}/dcp"}

    def state() -> dict[str, Any]:
        return {"model": training.model.state_dict(), "opt": training.opt.state_dict()}

    return Way(
        lambda: save_state(state(), storage_writer=S3StorageWriter(**place, overwrite=True)),
        lambda: load(state(), storage_reader=S3StorageReader(**place)),
    )


if __name__ == "__main__":
    main()
