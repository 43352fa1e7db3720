"""The transfer of a training's whole state to a process, from one or several that hold it.

Processes of one worker that take the state together, its mates, get a share each from elsewhere,
and the rest from each other.

The first sender sends a description of the tensors, as JSON with all other values. Then each
sends its share of the tensors (`state_shares.py`). Nothing is pickled, and they are received into
the existing tensors, like a checkpoint's.

Weights and optimizers' states have the same bits in all that hold them. Other objects (such as a
counter of the script) may differ, and half of one with half of another would be wrong: the first
sends these.

The senders continue to compute meanwhile: `take_snapshot` copies tensors that a forward pass may
change, and refers to the others, which change with the next update. So the update has to wait until
all is sent.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.elastic.backends.p2p_stream import EVALUATION
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.state_shares import Size, numbers_from_outside, share_out
from spotrun_trainer.process.rng import key_of
from spotrun_trainer.state.flatten import JSON, Spec
from spotrun_trainer.state.tracked import Tracked

_PART_BYTES = 4 * 2**20
"""Larger tensors are sent alone, smaller ones together: each message costs a round trip."""


@dataclass(frozen=True)
class Place:
    """The place of a process among those that send one state."""

    number: int = 0  # of its share
    of: int = 1  # shares
    first: int = 0  # the number of the share whose sender also sends what is not shared

    @property
    def is_first(self) -> bool:
        """Whether this process sends the receiver the description."""
        return self.number == self.first


@dataclass(frozen=True)
class Mates:
    """The ranks that take a state together, and the place of this process among them."""

    ranks: Sequence[int] = (0,)
    place: int = 0


ALONE = Mates()


@dataclass(frozen=True)
class Snapshot:
    """The state of a training, valid until the next update."""

    header: bytes
    layout: int  # a key of the names, types and shapes of the weights
    weights: list[Tensor]  # and the states of optimizers, in the order of their names
    others: list[Tensor]


def take_snapshot(tracked: Tracked, extra: Mapping[str, Any]) -> Snapshot:
    """Return a snapshot of everything that is tracked, and of `extra`."""
    flat = tracked.flatten()
    specs = flat.specs()
    described = {name: [spec.dtype, list(spec.shape)] for name, spec in specs.items()}
    header = json.dumps({"specs": described, "values": flat.values, "extra": dict(extra)}).encode()
    tensors = {
        name: tensor.detach().clone() if name in flat.volatile else tensor.detach()
        for name, tensor in flat.tensors.items()
    }
    weights, others = _divide(tracked, tensors, flat.volatile)
    return Snapshot(header, _layout(weights, specs), [*weights.values()], others)


def send(
    group: Group, rank: int, snapshot: Snapshot, device: torch.device, place: Place = Place()
) -> Pending:
    """Begin to send a process a share of a snapshot; an only source sends all of it."""
    # The receiver takes none before the header, whose sender may have to end an evaluation first.
    return group.send(_messages(snapshot, device, place), rank, most=EVALUATION)


def _messages(snapshot: Snapshot, device: torch.device, place: Place) -> Iterator[Tensor]:
    if place.is_first:
        header = torch.frombuffer(bytearray(snapshot.header), dtype=torch.uint8)
        yield torch.tensor([len(header)]).to(device)
        yield header.to(device)
    else:
        yield torch.tensor([snapshot.layout]).to(device)
    several = list(parts(snapshot.weights, _PART_BYTES))
    for one in share_out(_sizes(several), place.of)[place.number]:
        yield _together(several[one.message], device).view(-1)[one.start : one.stop]
    if place.is_first:
        yield from (_together(part, device) for part in parts(snapshot.others, _PART_BYTES))


@dataclass(frozen=True)
class Header:
    """The message before the tensors."""

    specs: dict[str, Spec]
    values: dict[str, JSON]
    extra: dict[str, Any]


def receive_header(group: Group, rank: int, device: torch.device) -> Header:
    """Receive the header from a process, which may have to end an evaluation first."""
    size = torch.zeros(1, dtype=torch.int64, device=device)
    group.receive([size], rank, most=EVALUATION).wait()
    content = torch.empty(int(size.item()), dtype=torch.uint8, device=device)
    group.receive([content], rank).wait()
    header = json.loads(bytes(content.cpu().numpy()))
    specs = {name: Spec(dtype, tuple(shape)) for name, (dtype, shape) in header["specs"].items()}
    return Header(specs, header["values"], header["extra"])


def receive(
    group: Group,
    ranks: Sequence[int],
    tracked: Tracked,
    header: Header,
    device: torch.device,
    *,
    mates: Mates = ALONE,
) -> None:
    """Receive the tensors from these processes; the first of them has sent the header.

    With mates a share of them comes from these processes, and the rest from the mates. If it fails
    half-way the tracked state is neither the old one nor the new one.
    """
    landing = tracked.landing(header.specs, header.values)
    weights, others = _divide(tracked, landing.tensors, tracked.flatten().volatile)
    _check_layouts(group, ranks[1:], _layout(weights, header.specs), device)
    shared = list(parts([*weights.values()], _PART_BYTES))
    whole = list(parts(others, _PART_BYTES))
    messages = [_room_for(part, device) for part in (*shared, *whole)]
    streams = [
        [messages[one.message].view(-1)[one.start : one.stop] for one in ranges]
        for ranges in share_out(_sizes(shared), len(mates.ranks) * len(ranks))
    ]
    by_mate = [
        [streams[number] for number in numbers_from_outside(mate, len(ranks))]
        for mate in range(len(mates.ranks))
    ]
    first, *more = by_mate[mates.place]
    own = [first + messages[len(shared) :], *more]  # the first also sends what is not shared
    for pending in [group.receive(*each) for each in zip(own, ranks, strict=True)]:
        pending.wait()
    _exchange(group, mates, [[*chain.from_iterable(each)] for each in by_mate])
    for part, message in zip((*shared, *whole), messages, strict=True):
        _unpack(part, message)
    tracked.load(landing)


def _exchange(group: Group, mates: Mates, by_mate: Sequence[Sequence[Tensor]]) -> None:
    """Send the mates what came to this process, and receive what came to them."""
    others = [place for place in range(len(mates.ranks)) if place != mates.place]
    # One of them may have to end an evaluation first.
    begun = [group.receive(by_mate[one], mates.ranks[one], most=EVALUATION) for one in others]
    own = by_mate[mates.place]
    begun += [group.send(own, mates.ranks[one], most=EVALUATION) for one in others]
    for pending in begun:
        pending.wait()


def _check_layouts(group: Group, ranks: Sequence[int], expected: int, device: torch.device) -> None:
    """Raise ValueError unless all hold tensors like the first: else ranges do not match."""
    keys = [torch.zeros(1, dtype=torch.int64, device=device) for _ in ranks]
    pairs = list(zip(keys, ranks, strict=True))
    # Each of them may have to end an evaluation first, like the first one.
    for pending in [group.receive([key], rank, most=EVALUATION) for key, rank in pairs]:
        pending.wait()
    if others := [rank for key, rank in pairs if int(key.item()) != expected]:
        raise ValueError(
            f"ranks {others} hold other weights, or states of optimizers, than the other ranks: "
            "build and track the same ones in all processes, whatever their rank"
        )


def _divide(
    tracked: Tracked, tensors: Mapping[str, Tensor], volatile: frozenset[str]
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Return weights and states of optimizers, in the order of their names, and all others."""
    names = [name for name in sorted(tensors) if tracked.is_weight(name, volatile)]
    weights = {name: tensors[name] for name in names}
    return weights, [tensor for name, tensor in tensors.items() if name not in weights]


def _layout(names: Iterable[str], specs: Mapping[str, Spec]) -> int:
    return key_of(*repr([(name, specs[name].title()) for name in names]).encode()) >> 1


def _sizes(several: Sequence[Sequence[Tensor]]) -> list[Size]:
    return [Size(sum(one.numel() for one in part), part[0].itemsize) for part in several]


def parts(tensors: Sequence[Tensor], part_bytes: int) -> Iterator[list[Tensor]]:
    """Yield consecutive tensors of one type, up to `part_bytes`; the same on both sides."""
    for _, alike in itertools.groupby(tensors, key=lambda tensor: tensor.dtype):
        part, size = list[Tensor](), 0
        for tensor in alike:
            if part and size + tensor.nbytes > part_bytes:
                yield part
                part, size = [], 0
            part.append(tensor)
            size += tensor.nbytes
        yield part


def _together(part: Sequence[Tensor], device: torch.device) -> Tensor:
    # Optimizers keep their counters of steps on the host.
    if len(part) == 1:
        return part[0].detach().to(device).contiguous()
    return torch.cat([tensor.detach().flatten().to(device) for tensor in part])


def _room_for(part: Sequence[Tensor], device: torch.device) -> Tensor:
    (first, *others) = part
    if not others and first.is_contiguous() and first.device == device:
        return first.detach()
    numel = sum(tensor.numel() for tensor in part)
    return torch.empty(numel, dtype=first.dtype, device=device)


def _unpack(part: Sequence[Tensor], message: Tensor) -> None:
    if len(part) == 1 and message.data_ptr() == part[0].data_ptr():
        return
    pieces = torch.split(message, [tensor.numel() for tensor in part])
    for tensor, piece in zip(part, pieces, strict=True):
        tensor.detach().copy_(piece.view_as(tensor))
