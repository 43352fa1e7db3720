"""Bytes of tensors in host memory."""

import ctypes

from torch import Tensor


def bytes_of(tensor: Tensor) -> memoryview:
    """Return a view of a contiguous tensor's bytes, which must outlive it; needs no numpy."""
    assert tensor.is_contiguous()
    assert tensor.device.type == "cpu"
    size = tensor.numel() * tensor.element_size()
    if not size:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * size).from_address(tensor.data_ptr())).cast("B")


def copy_bytes(target: Tensor, source: Tensor) -> None:
    """Copy between contiguous tensors of one type: in this thread, and without the GIL.

    `Tensor.copy_` would wake a pool of threads that spin for work next to the training's own.
    """
    ctypes.memmove(target.data_ptr(), source.data_ptr(), source.numel() * source.element_size())
