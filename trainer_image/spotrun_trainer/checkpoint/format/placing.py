"""Elements that were read, put where they belong in a tensor with any memory layout."""

import torch
from torch import Tensor


def put(tensor: Tensor, start: int, rows: Tensor, step: int = 0) -> None:
    """Set rows of elements, counted in row-major order, each `step` after the one before."""
    if tensor.element_size() == 1:  # not all operations support 8-bit types
        tensor, rows = tensor.view(torch.uint8), rows.view(torch.uint8)
    if tensor.is_contiguous():
        place = tensor.storage_offset() + start
        tensor.as_strided(rows.shape, (step, 1), place).copy_(rows)
        return
    num_rows, count = rows.shape
    firsts = start + step * torch.arange(num_rows)
    every = (firsts[:, None] + torch.arange(count)).flatten()
    places = torch.unravel_index(every, tensor.shape)
    tensor[tuple(one.to(tensor.device) for one in places)] = rows.flatten().to(tensor.device)
