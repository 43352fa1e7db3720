"""A training of 1,024 ranks, without a GPU: the cost of a checkpoint, a start and joining ranks.

The ranks are threads of one process. They run the real code that saves, completes and restores,
with a place in memory that counts the requests (`tests/support/storage/counted.py`). So these are
counts, not times.

`completion_opens_per_rank`: files that are opened, whether they exist or not, from the call of all
ranks until all know that the checkpoint is complete, per rank. Uploads end at random times, within
`--spread` seconds of each other; `completion_lists_per_rank` counts listings.
`last_completion_opens_per_rank`: the same if all wait for it after their last step.
`restore_bytes_ratio`: the bytes that all ranks read from the place, divided by the size of the
state; each rank then holds all of it, which is compared bit by bit. `restore_opens_per_rank`: files
opened for that. `transfer_skew`: 56 ranks, on seven nodes, join 968 others. It is the most that one
of these sends, divided by an equal share of all. `transfer_copies_per_node`: the copies of the
state that each node receives.

Run as `.venv/bin/python bench/many_ranks.py [--quick] [--ranks 1024] [--spread 3]`.
"""

import argparse
import random
import threading
import time
from collections import Counter
from pathlib import Path
from unittest import mock

import torch

from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun_trainer.checkpoint import Checkpoints, checkpoints, saver
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.elastic.recovery_plan import Commit, ProcessState, plan_recovery
from spotrun_trainer.elastic.state_shares import Size, numbers_from_outside, share_out
from spotrun_trainer.loop.loading.restore import restore
from spotrun_trainer.state.tracked import Tracked
from tests.support.processes.stub_group import in_threads, stub_groups
from tests.support.storage.counted import CountedPlace

NAME = "step-10.g1"
STEP_SECONDS = 0.2
STATE_BYTES = 32 << 20
NEWCOMERS, NODE = 56, 8
PATIENCE_SECONDS = 900.0


class State:
    """A user's own state, as a tracked object."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self.tensors = tensors

    def state_dict(self) -> dict[str, torch.Tensor]:
        return dict(self.tensors)

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.tensors = state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="64 ranks, in seconds")
    parser.add_argument("--ranks", type=how_many, default=1024)
    parser.add_argument("--spread", type=float, default=3.0)
    parser.add_argument("--only", choices=("completion", "restore", "transfer"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.ranks, arguments.spread = 64, 0.5
    torch.set_num_threads(1)
    # Threads that yield while they hold the interpreter's lock would block all others.
    mock.patch.object(saver, "NICER", 0).start()
    threading.stack_size(1 << 20)
    if arguments.only in {None, "completion"}:
        complete(arguments.ranks, arguments.spread, is_last=False)
        complete(arguments.ranks, arguments.spread, is_last=True)
    if arguments.only in {None, "restore"}:
        restore_all(arguments.ranks)
    if arguments.only in {None, "transfer"}:
        transfer()


def complete(size: int, spread: float, *, is_last: bool) -> None:
    """Save once on all ranks, and count until all know that it is complete."""
    dice = random.Random(1)  # noqa: S311
    seconds = {f"rank-{rank}.safetensors": dice.uniform(0, spread) for rank in range(size)}
    place = CountedPlace(upload_seconds=lambda file: seconds[file])
    flat = tracked(fresh(max(64, size) * 1000)).flatten()
    ranks = opened(place, size)
    for rank, one in enumerate(ranks):
        one.save(NAME, flat, rank=rank, size=size, extra={})
    waiting, is_durable = dict(enumerate(ranks)), False
    while waiting:
        time.sleep(STEP_SECONDS)
        is_durable = step(waiting, is_last=is_last, is_durable=is_durable)
    for one in ranks:
        one.close()
    what = "last_completion" if is_last else "completion"
    facts = {"ranks": size, "markers": place.counts["markers"]}
    say(f"{what}_opens_per_rank", place.counts["opens"] / size, "opens", **facts)
    say(f"{what}_lists_per_rank", place.counts["lists"] / size, "lists", ranks=size)


def step(waiting: dict[int, Checkpoints], *, is_last: bool, is_durable: bool) -> bool:
    """Check once on all ranks, as a loop does after a step, or after the last one.

    Return whether one of them votes, in the next step, that the checkpoint is complete.
    """
    for rank, one in list(waiting.items()):
        if is_last:
            one.wait(0.0)
        elif is_durable:
            one.completed(NAME)
        if one.finished() is not None:
            del waiting[rank]
            is_durable = True
    return is_durable


def restore_all(size: int) -> None:
    """Restore on all ranks, and count the reads."""
    place = CountedPlace()
    content = fresh(STATE_BYTES)
    flat = tracked(content).flatten()
    ranks = opened(place, size)
    for rank, one in enumerate(ranks):
        one.save(NAME, flat, rank=rank, size=size, extra={"step": 10})
        one.wait(0.0)
    while not all(one.wait(0.1) for one in ranks):
        pass
    place.counts.clear()
    groups = stub_groups(size)
    # All but two share the memory of their tensors: 1,024 states would need too much.
    common = empty(content)
    targets = [empty(content) if rank in {1, size - 1} else common for rank in range(size)]

    def start(rank: int) -> None:
        info = RankInfo(rank=rank, size=size)
        there = tracked(targets[rank])
        found = restore(info, groups[rank], ranks[rank], there, torch.device("cpu"))
        assert found is not None
        assert found.extra == {"step": 10}

    in_threads(size, start)
    for one in ranks:
        one.close()
    differing = sum(
        not torch.equal(tensor, content[name])
        for target in targets
        for name, tensor in target.items()
    )
    assert not differing, f"{differing} tensors differ from what was saved"
    say("restore_bytes_ratio", place.counts["bytes"] / STATE_BYTES, "x", ranks=size)
    say("restore_opens_per_rank", place.counts["opens"] / size, "opens", ranks=size)


def transfer() -> None:
    """Plan the transfer of a state to seven nodes that join 121 others."""
    size, joining = 1024, range(480, 480 + NEWCOMERS)
    states = [ProcessState(Commit(1, 5), worker=rank // NODE) for rank in range(size)]
    for rank in joining:
        states[rank] = ProcessState(worker=rank // NODE)
    plan = plan_recovery(states, 2)
    sizes = [Size(1 << 20, 4)] * 512
    total = sum(one.num_bytes for one in sizes)
    given, received = Counter[int](), Counter[int]()
    for rank in joining:
        sources, mates = plan.sources_of(rank), plan.mates_of(rank)
        shares = share_out(sizes, len(sources) * len(mates))
        numbers = numbers_from_outside(mates.index(rank), len(sources))
        for source, number in zip(sources, numbers, strict=True):
            ranges = shares[number]
            count = sum((one.stop - one.start) * sizes[one.message].itemsize for one in ranges)
            given[source] += count
            received[rank // NODE] += count
    share = sum(given.values()) / (size - NEWCOMERS)
    facts = {"ranks": size, "newcomers": NEWCOMERS, "sources": len(given)}
    say("transfer_skew", max(given.values()) / share, "x", **facts)
    say("transfer_copies_per_node", max(received.values()) / total, "copies", **facts)


def fresh(num_bytes: int) -> dict[str, torch.Tensor]:
    """Return a state of that size, in tensors of several sizes."""
    torch.manual_seed(1)
    count = num_bytes // 4
    cuts = [count // 2, count // 4, count // 8]
    return {
        f"w{number}": torch.randn(numel) for number, numel in enumerate([*cuts, count - sum(cuts)])
    }


def empty(content: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return empty tensors for such a state."""
    return {name: torch.zeros_like(tensor) for name, tensor in content.items()}


def tracked(content: dict[str, torch.Tensor]) -> Tracked:
    """Return a training that tracks such a state."""
    all_of_it = Tracked()
    all_of_it.add("state", State(content))
    return all_of_it


def opened(place: CountedPlace, size: int) -> list[Checkpoints]:
    """Return the checkpoints of each rank."""
    with mock.patch.object(checkpoints, "open_storage", return_value=place):
        return [
            Checkpoints(Path("memory"), keep=2, attempt="one", patience_seconds=PATIENCE_SECONDS)
            for _ in range(size)
        ]


if __name__ == "__main__":
    main()
