"""The whole state of a training, from one process that has it to one that has not.

First what the tensors are, as JSON with everything that is no tensor, then the tensors. Nothing is
pickled, and they arrive in the tensors that are there, as a checkpoint's do.

Who gives goes on computing meanwhile: `pack` holds on to the state of that moment, by a copy of
what a forward pass may change, and of the rest by the tensors themselves, which the next update
changes. So that has to wait until all is given.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.elastic.p2p_stream import EVALUATION
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.state.flatten import JSON, Spec
from spotrun_trainer.state.tracked import Tracked

_PART_BYTES = 4 * 2**20
"""Larger tensors go as they are; smaller ones together, for each message costs a round trip."""


@dataclass(frozen=True)
class Snapshot:
    """A state as it is until the next update."""

    header: bytes
    tensors: list[Tensor]


def take_snapshot(tracked: Tracked, extra: Mapping[str, Any]) -> Snapshot:
    """Everything that is tracked, and `extra`, as they are now."""
    flat = tracked.flatten()
    specs = {name: [spec.dtype, list(spec.shape)] for name, spec in flat.specs().items()}
    header = json.dumps({"specs": specs, "values": flat.values, "extra": dict(extra)}).encode()
    tensors = [
        tensor.detach().clone() if name in flat.volatile else tensor.detach()
        for name, tensor in flat.tensors.items()
    ]
    return Snapshot(header, tensors)


def send(group: Group, rank: int, snapshot: Snapshot, device: torch.device) -> Pending:
    """Begin to send a parcel to one process."""
    header = torch.frombuffer(bytearray(snapshot.header), dtype=torch.uint8)
    together = (_together(part, device) for part in parts(snapshot.tensors, _PART_BYTES))
    first = (message.to(device) for message in (torch.tensor([len(header)]), header))
    return group.send(itertools.chain(first, together), rank)


@dataclass(frozen=True)
class Header:
    """What comes before the tensors."""

    specs: dict[str, Spec]
    values: dict[str, JSON]
    extra: dict[str, Any]


def receive_header(group: Group, rank: int, device: torch.device) -> Header:
    """Receive the first part of what a process gives; it may be amid an evaluation until then."""
    size = torch.zeros(1, dtype=torch.int64, device=device)
    group.receive([size], rank, most=EVALUATION).wait()
    content = torch.empty(int(size.item()), dtype=torch.uint8, device=device)
    group.receive([content], rank).wait()
    header = json.loads(bytes(content.cpu().numpy()))
    specs = {name: Spec(dtype, tuple(shape)) for name, (dtype, shape) in header["specs"].items()}
    return Header(specs, header["values"], header["extra"])


def receive(
    group: Group, rank: int, tracked: Tracked, header: Header, device: torch.device
) -> None:
    """Receive the rest.

    If it fails half-way what is tracked is neither the old state nor the new one.
    """
    landing = tracked.landing(header.specs, header.values)
    received = list(parts(list(landing.tensors.values()), _PART_BYTES))
    messages = [_room_for(part, device) for part in received]
    group.receive(messages, rank).wait()
    for part, message in zip(received, messages, strict=True):
        _unpack(part, message)
    tracked.load(landing)


def parts(tensors: Sequence[Tensor], part_bytes: int) -> Iterator[list[Tensor]]:
    """Neighbours of one type, of at most so many bytes, or a single one; the same on both sides."""
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
