"""The copy that a save is made from is what was there when it was asked for."""

import threading

import pytest
import torch
from torch import Tensor

from spotrun_trainer.checkpoint import staging
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.host_memory import copy_bytes
from spotrun_trainer.checkpoint.staging import PIECE_BYTES, HostBuffer, Staging
from spotrun_trainer.state.flatten import Flat
from tests.unit.trainer.checkpoint.states import eventually

LARGE = 3 * PIECE_BYTES // 4  # elements of 4 bytes: three pieces


def stage(tensor: Tensor, *, volatile: bool = False) -> Staging:
    flat = Flat({"x": tensor}, volatile=frozenset(["x"] if volatile else []))
    buffer = HostBuffer()
    buffer.take(tensor.nbytes, pinned=False).zero_()
    return Staging(flat, [Slice("x", 0, tensor.numel())], buffer)


def test_what_is_volatile_may_change_at_once() -> None:
    tensor = torch.zeros(10)

    staged = stage(tensor, volatile=True)
    tensor.fill_(1)

    assert not staged.finish().any()


def test_the_rest_may_change_after_join_though_no_other_thread_has_begun() -> None:
    tensor = torch.zeros(LARGE)

    staged = stage(tensor)
    staged.join()
    tensor.fill_(1)

    assert not staged.finish().any()


def test_join_waits_for_what_another_thread_is_copying(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow_in_one_thread(target: Tensor, source: Tensor) -> None:
        if threading.current_thread() is copying:
            begun.set()
            go_on.wait(10)
        copy_bytes(target, source)

    monkeypatch.setattr(staging, "copy_bytes", slow_in_one_thread)
    staged = stage(torch.ones(LARGE))
    copying = threading.Thread(target=staged.work)
    joining = threading.Thread(target=staged.join)
    copying.start()
    assert begun.wait(10)
    joining.start()
    # Of the three pieces the other two are copied by whoever joins.
    assert eventually(lambda: int(staged.memory.view(torch.float32).sum()) == 2 * LARGE // 3)
    assert joining.is_alive()

    go_on.set()
    joining.join(10)

    assert not joining.is_alive()
    copying.join(10)
    assert torch.equal(torch.ones(LARGE), staged.finish().view(torch.float32))


def test_an_error_while_copying_is_raised_where_the_save_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(target: Tensor, source: Tensor) -> None:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(staging, "copy_bytes", fail)
    staged = stage(torch.ones(2))

    staged.join()

    with pytest.raises(RuntimeError, match="the device is gone"):
        staged.finish()


@pytest.mark.parametrize("volatile", [True, False])
def test_tensors_that_require_gradients_are_copied_without(*, volatile: bool) -> None:
    tensor = torch.full((3,), 1 + 2j, requires_grad=True).conj()  # copied by torch

    memory = stage(tensor, volatile=volatile).finish()

    assert not memory.requires_grad
    assert memory.view(torch.complex64).tolist() == [1 - 2j] * 3


def test_memory_is_kept_from_save_to_save_and_grows_when_it_must() -> None:
    buffer = HostBuffer()

    first = buffer.take(1000, pinned=False)
    smaller = buffer.take(10, pinned=False)
    larger = buffer.take(2000, pinned=False)

    assert first.data_ptr() == smaller.data_ptr()
    assert smaller.numel() == 10
    assert larger.numel() == 2000


@pytest.mark.gpu
def test_a_gpu_copies_beside_what_it_computes() -> None:
    tensor = torch.zeros(LARGE, device="cuda")

    staged = stage(tensor)
    assert staged.memory.is_pinned()
    staged.join()
    tensor.fill_(1)

    assert not staged.finish().any()
