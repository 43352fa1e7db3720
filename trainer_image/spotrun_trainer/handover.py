"""The whole state of a training, from one process that has it to one that has not.

First what the tensors are, as JSON with everything that is no tensor, then the tensors. Nothing is
pickled, and they arrive in the tensors that are there, as a checkpoint's do.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.flat import JSON, Spec
from spotrun_trainer.group import Group
from spotrun_trainer.tracked import Tracked

_PART_BYTES = 4 * 2**20
"""Larger tensors go as they are; smaller ones together, for each message costs a round trip."""


def give(
    group: Group, rank: int, tracked: Tracked, extra: Mapping[str, Any], device: torch.device
) -> None:
    """Send everything that is tracked, and `extra`, to one process."""
    flat = tracked.flatten()
    specs = {name: [spec.dtype, list(spec.shape)] for name, spec in flat.specs().items()}
    header = json.dumps({"specs": specs, "values": flat.values, "extra": dict(extra)}).encode()
    group.send(torch.tensor([len(header)], device=device), rank)
    group.send(torch.frombuffer(bytearray(header), dtype=torch.uint8).to(device), rank)
    for part in parts(list(flat.tensors.values()), _PART_BYTES):
        group.send(_together(part).to(device), rank)


@dataclass(frozen=True)
class Header:
    """What comes before the tensors."""

    specs: dict[str, Spec]
    values: dict[str, JSON]
    extra: dict[str, Any]


def take_header(group: Group, rank: int, device: torch.device) -> Header:
    """Receive the first part of what a process gives."""
    size = torch.zeros(1, dtype=torch.int64, device=device)
    group.receive(size, rank)
    content = torch.empty(int(size.item()), dtype=torch.uint8, device=device)
    group.receive(content, rank)
    header = json.loads(bytes(content.cpu().numpy()))
    specs = {name: Spec(dtype, tuple(shape)) for name, (dtype, shape) in header["specs"].items()}
    return Header(specs, header["values"], header["extra"])


def take(group: Group, rank: int, tracked: Tracked, header: Header, device: torch.device) -> None:
    """Receive the rest.

    If it fails half-way what is tracked is neither the old state nor the new one.
    """
    landing = tracked.landing(header.specs, header.values)
    for part in parts(list(landing.tensors.values()), _PART_BYTES):
        _receive(group, rank, part, device)
    tracked.load(landing)


def parts(tensors: Sequence[Tensor], part_bytes: int) -> Iterator[list[Tensor]]:
    """Neighbours of one type, as many as make up so many bytes; the same on both sides."""
    for _, alike in itertools.groupby(tensors, key=lambda tensor: tensor.dtype):
        part, size = list[Tensor](), 0
        for tensor in alike:
            part.append(tensor)
            size += tensor.numel() * tensor.element_size()
            if size >= part_bytes:
                yield part
                part, size = [], 0
        if part:
            yield part


def _together(part: Sequence[Tensor]) -> Tensor:
    if len(part) == 1:
        return part[0].detach().contiguous()
    return torch.cat([tensor.detach().flatten() for tensor in part])


def _receive(group: Group, rank: int, part: Sequence[Tensor], device: torch.device) -> None:
    (first, *others) = part
    if not others and first.is_contiguous() and first.device == device:
        group.receive(first.detach(), rank)
        return
    numel = sum(tensor.numel() for tensor in part)
    flat = torch.empty(numel, dtype=first.dtype, device=device)
    group.receive(flat, rank)
    pieces = torch.split(flat, [tensor.numel() for tensor in part])
    for tensor, piece in zip(part, pieces, strict=True):
        tensor.detach().copy_(piece.view_as(tensor))
