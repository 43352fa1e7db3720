"""Several processes send a joining worker a share of the state each; it has the same bits."""

import os
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import find_rank_info
from spotrun_trainer.elastic.state_transfer import Mates, Place
from spotrun_trainer.state.tracked import Tracked
from tests.support.processes.trainer_world import run_world

CPU = torch.device("cpu")
SOURCES = (1, 2, 0)  # of whom rank 1 is the first
JOINING_WORKER = 3


class Odd(nn.Module):
    """Tensors of many kinds: large, empty, scattered, of other types, and a buffer of one's own."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.large = nn.Parameter(torch.randn(3000, 1001))
        self.empty = nn.Parameter(torch.empty(0, 4))
        self.scattered = nn.Parameter(torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last))
        self.short = nn.Parameter(torch.randn(1001).bfloat16())
        self.one = nn.Parameter(torch.randn(()))
        self.seen: Tensor
        self.register_buffer("seen", torch.full((1000,), rank))


class Own:
    """An object that is not the same in all processes."""

    def __init__(self, rank: int) -> None:
        self.tensor = torch.full((1000,), float(rank))

    def state_dict(self) -> dict[str, Tensor]:
        return {"tensor": self.tensor}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.tensor = state["tensor"]


def tracked_by(rank: int, *, extra: bool = False) -> tuple[Tracked, Odd, torch.optim.Optimizer]:
    """A model that has been trained for a step; the joining worker's has not."""
    torch.manual_seed(rank == JOINING_WORKER)
    model = Odd(rank)
    used = [one for name, one in model.named_parameters() if extra or name != "one"]
    optimizer = torch.optim.AdamW(used, lr=0.1)
    if rank != JOINING_WORKER:
        for parameter in used:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
    tracked = Tracked()
    tracked.add("model", model)
    tracked.add("optimizer", optimizer)
    tracked.add("own", Own(rank))
    return tracked, model, optimizer


def transfer(differs: int | None) -> dict[str, Tensor]:
    """Send the joining worker the state; returns what each has then."""
    rank_info = find_rank_info(os.environ, None)
    rank = rank_info.rank
    group = Group.form(rank_info, device=CPU)
    group.all_gather(torch.ones(1))
    tracked, _, _ = tracked_by(rank, extra=rank == differs)
    if rank == JOINING_WORKER:
        header = state_transfer.receive_header(group, SOURCES[0], CPU)
        state_transfer.receive(group, SOURCES, tracked, header, CPU)
    else:
        snapshot = state_transfer.take_snapshot(tracked, {})
        place = Place(SOURCES.index(rank), len(SOURCES))
        state_transfer.send(group, JOINING_WORKER, snapshot, CPU, place).wait()
    if differs is None:
        group.all_gather(torch.ones(1))  # so nobody has left while it still receives
    return {name: one.clone() for name, one in tracked.flatten().tensors.items()}


def values(differs: int | None = None) -> list[Any]:
    ended = run_world(JOINING_WORKER + 1, transfer, differs)
    assert [one.error for one in ended] == [""] * len(ended), [one.said for one in ended]
    return [one.value for one in ended]


def test_all_of_it_has_the_bits_of_those_who_hold_it() -> None:
    *sources, joining_worker = values()
    assert set(joining_worker) == set(sources[0])
    for name, tensor in joining_worker.items():
        assert torch.equal(tensor, sources[SOURCES[0]][name]), name


def test_what_may_differ_comes_whole_from_the_first() -> None:
    joining_worker = values()[JOINING_WORKER]
    for name in ("own/tensor", "model/seen"):
        assert joining_worker[name].tolist() == [SOURCES[0]] * 1000, name


def test_who_holds_other_tensors_is_named() -> None:
    """Rank 2 gives its optimizer one parameter more: its ranges would be those of other tensors."""
    ended = run_world(JOINING_WORKER + 1, transfer, 2)
    assert "ranks [2] hold other weights" in ended[JOINING_WORKER].error


MATES = Mates((2, 3), 0)


def transfer_to_mates() -> dict[str, Tensor]:
    """Send two processes of a worker halves of the state, from two others; each has all then."""
    rank_info = find_rank_info(os.environ, None)
    rank = rank_info.rank
    group = Group.form(rank_info, device=CPU)
    group.all_gather(torch.ones(1))
    tracked, _, _ = tracked_by(rank if rank < 2 else JOINING_WORKER)
    if rank in MATES.ranks:
        mates = replace(MATES, place=MATES.ranks.index(rank))
        header = state_transfer.receive_header(group, 0, CPU)
        state_transfer.receive(group, (0, 1), tracked, header, CPU, mates=mates)
    else:
        snapshot = state_transfer.take_snapshot(tracked, {})
        for place, mate in enumerate(MATES.ranks):
            share = Place(2 * place + rank, 4, first=2 * place)
            state_transfer.send(group, mate, snapshot, CPU, share).wait()
    group.all_gather(torch.ones(1))
    return {name: one.clone() for name, one in tracked.flatten().tensors.items()}


def test_mates_get_a_share_each_and_the_rest_from_each_other() -> None:
    ended = run_world(4, transfer_to_mates)
    assert [one.error for one in ended] == [""] * 4, [one.said for one in ended]
    first, _, *mates = (one.value for one in ended)
    for mate in mates:
        assert set(mate) == set(first)
        for name, tensor in mate.items():
            assert torch.equal(tensor, first[name]), name


class Link:
    """A group of which only what is sent is noted."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def send(self, tensors: Any, _rank: int, **_most: Any) -> "Link":
        self.num_bytes = sum(one.nbytes for one in tensors)
        return self


def test_none_sends_more_than_its_share() -> None:
    tracked, *_ = tracked_by(0)
    snapshot = state_transfer.take_snapshot(tracked, {})
    links = [Link() for _ in range(8)]
    for number, link in enumerate(links):
        group: Any = link
        state_transfer.send(group, JOINING_WORKER, snapshot, CPU, Place(number, len(links)))
    total = sum(link.num_bytes for link in links)
    assert max(link.num_bytes for link in links) < 1.2 * total / len(links)
