"""Objects and their tensors from process to process."""

import multiprocessing
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from typing_extensions import override

from spotrun_trainer.data.workers.shared_memory import pack, receive, send

torch.set_num_threads(1)

Pair = tuple[Connection, Connection]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        yield ours, theirs


def shared_files() -> set[tuple[str, str]]:
    """Descriptors of torch's shared memory: others come and go with what else this process does."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            found.add((descriptor.name, str(descriptor.readlink())))
    return {(number, path) for number, path in found if "/torch_" in path}


def lowest_free_descriptor() -> int:
    descriptor = os.dup(0)
    os.close(descriptor)
    return descriptor


def test_a_structure_arrives_as_it_was(pair: Pair) -> None:
    tensor = torch.arange(6.0)
    thing = {"whole": tensor, "part": tensor[2:4], "more": [2, 0.5], "empty": torch.zeros(0)}

    send(pair[0], pack(thing))
    received = receive(pair[1])

    torch.testing.assert_close(received, thing)


def test_tensors_arrive_in_shared_memory(pair: Pair) -> None:
    tensor = torch.zeros(3)
    send(pair[0], pack(tensor))
    received = receive(pair[1])
    assert isinstance(received, torch.Tensor)

    tensor[1] = 7.0  # packing has moved it there as well

    assert received.tolist() == [0.0, 7.0, 0.0]


def test_more_tensors_than_a_message_can_take(pair: Pair) -> None:
    tensors = [torch.tensor([number]) for number in range(600)]
    files = shared_files()

    send(pair[0], pack(tensors))
    received = receive(pair[1])

    assert isinstance(received, list)
    assert [int(tensor) for tensor in received] == [*range(600)]
    assert len(shared_files() - files) == 600  # the sender's; those that were passed are closed
    del received, tensors
    assert not shared_files() - files


def test_what_was_sent_outlives_its_sender(pair: Pair) -> None:
    pid = os.fork()
    if not pid:
        send(pair[0], pack(torch.tensor([4, 2])))
        os._exit(0)
    os.waitpid(pid, 0)

    received = receive(pair[1])

    assert isinstance(received, torch.Tensor)
    assert received.tolist() == [4, 2]


def test_what_does_not_pickle_leaves_no_file_open() -> None:
    tensor = torch.zeros(3)
    files = shared_files()

    with pytest.raises(Exception, match="pickle"):
        pack([tensor, lambda: None])

    assert len(shared_files() - files) == 1  # the tensor's own


def test_too_few_open_files_are_an_error_and_leave_none_open(pair: Pair) -> None:
    send(pair[0], pack([torch.tensor([number]) for number in range(50)]))
    files = shared_files()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free_descriptor() + 5, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            receive(pair[1])
        assert not shared_files() - files
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


class Unreadable:
    """Pickles, and cannot be loaded."""

    @override
    def __reduce__(self) -> tuple[type, tuple[str]]:
        return int, ("no number",)


def test_what_does_not_load_leaves_no_file_open(pair: Pair) -> None:
    send(pair[0], pack([Unreadable(), torch.zeros(3)]))
    files = shared_files()

    with pytest.raises(ValueError, match="no number"):
        receive(pair[1])

    assert not shared_files() - files
