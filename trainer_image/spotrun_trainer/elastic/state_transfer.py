"""The transfer of a training's whole state from one process to another.

First comes a description of the tensors, as JSON with all other values, then the tensors. Nothing
is pickled, and they are received into the tensors that are there, like a checkpoint's.

The sender computes on meanwhile: `take_snapshot` copies tensors that a forward pass may change, and
refers to the others, which change with the next update. So that has to wait until all is sent.
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
"""Larger tensors are sent alone, smaller ones together: each message costs a round trip."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a training, valid until the next update."""

    header: bytes
    tensors: list[Tensor]


def take_snapshot(tracked: Tracked, extra: Mapping[str, Any]) -> Snapshot:
    """Return a snapshot of everything that is tracked, and of `extra`."""
    flat = tracked.flatten()
    specs = {name: [spec.dtype, list(spec.shape)] for name, spec in flat.specs().items()}
    header = json.dumps({"specs": specs, "values": flat.values, "extra": dict(extra)}).encode()
    tensors = [
        tensor.detach().clone() if name in flat.volatile else tensor.detach()
        for name, tensor in flat.tensors.items()
    ]
    return Snapshot(header, tensors)


def send(group: Group, rank: int, snapshot: Snapshot, device: torch.device) -> Pending:
    """Begin to send a snapshot to one process."""
    header = torch.frombuffer(bytearray(snapshot.header), dtype=torch.uint8)
    together = (_together(part, device) for part in parts(snapshot.tensors, _PART_BYTES))
    first = (message.to(device) for message in (torch.tensor([len(header)]), header))
    return group.send(itertools.chain(first, together), rank)


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
    group: Group, rank: int, tracked: Tracked, header: Header, device: torch.device
) -> None:
    """Receive the tensors.

    If it fails half-way the tracked state is neither the old one nor the new one.
    """
    landing = tracked.landing(header.specs, header.values)
    received = list(parts(list(landing.tensors.values()), _PART_BYTES))
    messages = [_room_for(part, device) for part in received]
    group.receive(messages, rank).wait()
    for part, message in zip(received, messages, strict=True):
        _unpack(part, message)
    tracked.load(landing)


def parts(tensors: Sequence[Tensor], part_bytes: int) -> Iterator[list[Tensor]]:
    """Yield consecutive tensors of one type, up to so many bytes; the same on both sides."""
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
