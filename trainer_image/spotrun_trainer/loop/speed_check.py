"""The check of speeds before the first step: of each process's device, and of workers' links.

All processes multiply matrices at the same time. Then workers form a ring: the first processes of
two neighbours send each other a block of data. So a worker has two links, and its speed is that of
the faster one: with a slow connection of its own both are slow, and each neighbour has another one.
"""

import time
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import torch

from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.process.device import put
from spotrun_trainer.telemetry.console import say

COMPUTE_SECONDS = 0.2
BLOCK_BYTES = 1 << 23
EXCHANGES = 4
"""The quickest one counts: in the first one, a process may still wait for its neighbour."""

Pair = tuple[int, int]


class Speed(NamedTuple):
    """The speed of a worker."""

    flops: float  # operations a second of its slowest process
    link: float | None  # bytes a second, of the faster one of its links; None: it is alone


def check_speeds(context: Context) -> None:
    """Measure the speeds of all workers, and report that of this one."""
    rank_info, group, device = context.rank_info, context.group, context.device
    flops, link = flops_of(device), _link_to_next(group, rank_info.local_size, device)
    told = group.all_gather(put([flops, link], device)).tolist()
    speeds = speeds_of(told, rank_info.local_size)
    own = speeds[rank_info.rank // rank_info.local_size]
    context.reporter.update(flops=own.flops, link_bytes=own.link)
    if group.rank == 0:
        say(summary(speeds))


def flops_of(device: torch.device, seconds: float = COMPUTE_SECONDS) -> float:
    """Multiply matrices for a moment; return the operations a second of the quickest time."""
    size, kind = (8192, torch.bfloat16) if device.type == "cuda" else (512, torch.float32)
    # Not of equal numbers, for which a GPU needs less power, and not of random ones: their order
    # belongs to the training.
    factor = (torch.arange(size * size, device=device) % 251).reshape(size, size).to(kind)
    product = torch.mm(factor, factor)
    _wait_for(device)
    quickest, end = float("inf"), time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        torch.mm(factor, factor, out=product)
        _wait_for(device)
        quickest = min(quickest, time.perf_counter() - begun)
    return 2.0 * size**3 / quickest


def rounds_of(workers: int) -> list[list[Pair]]:
    """Return the links of a ring; in a round each worker has one of them at most."""
    if workers < 3:
        return [[(0, 1)]] if workers == 2 else []
    *pairs, last = [(one, (one + 1) % workers) for one in range(workers)]
    return [pairs[0::2], pairs[1::2], [last]]


def speeds_of(told: Sequence[Sequence[float]], processes: int) -> list[Speed]:
    """Return the speeds of workers, from what each process has told.

    It is the speed of its device, and of the link from its worker to the next one.
    """
    firsts = range(0, len(told), processes)
    flops = [min(one[0] for one in told[first : first + processes]) for first in firsts]
    links = [told[first][1] for first in firsts]  # 0.0: there is none
    return [Speed(one, max(links[n], links[n - 1]) or None) for n, one in enumerate(flops)]


def summary(speeds: Sequence[Speed]) -> str:
    """Return the log line: from the slowest worker to the fastest."""
    devices = _range((one.flops for one in speeds), "FLOP/s")
    links = [one.link for one in speeds if one.link is not None]
    told = f"; links {_range(links, 'B/s')}" if links else ""
    return f"speeds before the first step: devices {devices}{told}"


def _range(numbers: Iterable[float], unit: str) -> str:
    ordered = sorted(numbers)
    return f"{ordered[0] / 1e9:.4g} to {ordered[-1] / 1e9:.4g} G{unit}"


def _link_to_next(group: Group, processes: int, device: torch.device) -> float:
    """Return the bytes a second between this worker and the next one; 0 without such a link."""
    worker, local_rank = divmod(group.rank, processes)
    if local_rank:
        return 0.0
    speed = 0.0
    for first, second in chain.from_iterable(rounds_of(group.size // processes)):
        if worker == first:
            speed = _exchange(group, second * processes, device, begins=True)
        elif worker == second:
            _exchange(group, first * processes, device, begins=False)
    return speed


def _exchange(group: Group, peer: int, device: torch.device, *, begins: bool) -> float:
    """Send a block there and back; return the bytes a second of the quickest time."""
    block = torch.zeros(BLOCK_BYTES, dtype=torch.uint8, device=device)
    quickest = float("inf")
    for _ in range(EXCHANGES):
        begun = time.perf_counter()
        for sends in (begins, not begins):
            (group.send if sends else group.receive)([block], peer).wait()
            _wait_for(device)
        quickest = min(quickest, time.perf_counter() - begun)
    return 2.0 * block.nbytes / quickest


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
