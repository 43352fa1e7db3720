"""The state of a joining worker from eight processes, compared with one (see bench/parallel.py).

Nine processes use gloo. In turns, one of eight processes and all eight send the ninth a model with
its AdamW state, with the trainer's own code. On one machine all links share its memory, and the
copies need its cores: this is `bare`. In a cluster each source has its own link, so `limited`
limits each process's connections to LINK_BYTES_PER_SECOND with the kernel's pacing of a socket
(SO_MAX_PACING_RATE). This is an emulation: the joining worker's own link has no limit.
"""

import os
import socket
import statistics
import time
from contextlib import suppress

import torch
from torch import nn

from bench.chaos_links import borrowed, sockets
from bench.operator_bench import say
from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import find_rank_info
from spotrun_trainer.elastic.recovery_plan import MOST_SOURCES
from spotrun_trainer.elastic.state_transfer import Place
from spotrun_trainer.state.tracked import Tracked
from tests.support.processes.trainer_world import run_world

JOINING_WORKER = MOST_SOURCES
LINK_BYTES_PER_SECOND = 10_000_000  # eight times this is less than a busy machine copies
WIDTH, LAYERS = 512, 8  # 2.1 M parameters: with two moments 25 MB
PACING_RATE = getattr(socket, "SO_MAX_PACING_RATE", 47)
CPU = torch.device("cpu")

Turn = tuple[float, float]
"""The seconds that the joining worker waited, and the CPU time of a process meanwhile."""


def measure_sources(*, turns: int) -> None:
    """Print how much faster a joining worker gets its state from eight processes than from one."""
    for links, rate in (("limited", LINK_BYTES_PER_SECOND), ("bare", None)):
        ended = run_world(JOINING_WORKER + 1, take_turns, turns, rate)
        if errors := [one.said for one in ended if one.error]:
            raise RuntimeError(errors[0])
        _, num_bytes = ended[JOINING_WORKER].value
        by_rank: list[list[tuple[Turn, Turn]]] = [one.value[0] for one in ended]
        seconds = [(one[0], eight[0]) for one, eight in by_rank[JOINING_WORKER]]
        wall = [sum(side) for side in zip(*seconds, strict=True)]
        busy = [sum(turn[side][1] for turns in by_rank for turn in turns) for side in (0, 1)]
        say(
            "state_sources_ratio",
            [one / eight for one, eight in seconds],
            "ratio",
            links=links,
            sources=MOST_SOURCES,
            state_mb=round(num_bytes / 1e6, 1),
            one_mb_per_s=round(num_bytes / 1e6 / statistics.median(one for one, _ in seconds)),
            all_mb_per_s=round(num_bytes / 1e6 / statistics.median(each for _, each in seconds)),
            one_busy_cores=round(busy[0] / wall[0], 2),
            all_busy_cores=round(busy[1] / wall[1], 2),
            cores=os.cpu_count(),
        )


def take_turns(turns: int, rate: int | None) -> tuple[list[tuple[Turn, Turn]], int]:
    """Send, or receive, from one and from all in turns; returns the turns and the state's size."""
    torch.set_num_threads(1)
    rank_info = find_rank_info(os.environ, None)
    group = Group.form(rank_info, device=CPU)
    group.all_gather(torch.ones(1))
    if rate is not None:
        _limit(rate)
    tracked = _trained(rank_info.rank)
    _turn(group, tracked, [0])  # from now on the joining worker's optimizer has its tensors
    taken = []
    for number in range(turns):
        sides = [[number % JOINING_WORKER], [*range(JOINING_WORKER)]]  # either goes first as often
        order = sides[:: 1 if number % 2 else -1]
        results = [_turn(group, tracked, sources) for sources in order]
        one, eight = results[:: 1 if number % 2 else -1]
        taken.append((one, eight))
    group.all_gather(torch.ones(1))
    return taken, sum(one.nbytes for one in tracked.flatten().tensors.values())


def _turn(group: Group, tracked: Tracked, sources: list[int]) -> Turn:
    group.all_gather(torch.ones(1))
    began, computed = time.perf_counter(), time.process_time()
    if group.rank == JOINING_WORKER:
        header = state_transfer.receive_header(group, sources[0], CPU)
        state_transfer.receive(group, sources, tracked, header, CPU)
    elif group.rank in sources:
        snapshot = state_transfer.take_snapshot(tracked, {})
        place = Place(sources.index(group.rank), len(sources))
        state_transfer.send(group, JOINING_WORKER, snapshot, CPU, place).wait()
    return time.perf_counter() - began, time.process_time() - computed


def _trained(rank: int) -> Tracked:
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    optimizer = torch.optim.AdamW(model.parameters())
    if rank != JOINING_WORKER:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    tracked = Tracked()
    tracked.add("model", model)
    tracked.add("optimizer", optimizer)
    return tracked


def _limit(rate: int) -> None:
    for (number, _), _, _ in sockets():
        with suppress(OSError), borrowed(number) as found:
            found.setsockopt(socket.SOL_SOCKET, PACING_RATE, rate)
