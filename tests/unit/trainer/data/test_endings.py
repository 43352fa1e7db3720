"""Loader workers: what they outlive, what they do not, and what is said when they end too soon."""

import faulthandler
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from torch.utils.data import get_worker_info

from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.data.workers.worker_pool import LoaderWorkerLostError
from tests.unit.trainer.data.datasets import Failing, Numbers
from tests.unit.trainer.data.helpers import Opened, is_running, open_for_tests, take, until, workers

torch.set_num_threads(1)

FORK = multiprocessing.get_context("fork")


def end_by(number: signal.Signals) -> None:
    faulthandler.disable()  # pytest's would print
    os.kill(os.getpid(), number)
    signal.pause()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (lambda: end_by(signal.SIGKILL), "was killed, most likely because memory ran out"),
        (
            lambda: end_by(signal.SIGBUS),
            "was ended by a bus error, .* is full .* emptyDir with `medium: Memory`",
        ),
        (lambda: end_by(signal.SIGSEGV), "was ended by SIGSEGV, in native code"),
        (lambda: os._exit(3), "ended with exit code 3"),
    ],
    ids=["killed", "bus error", "segmentation fault", "exit"],
)
def test_a_lost_worker_is_said_with_what_to_try(
    opened: Opened, does: Callable[[], None], said: str
) -> None:
    source = opened(Failing(100, 5, does), num_workers=2)

    assert take(source, 0, microbatches=2) == [0, 1, 2, 3]
    with pytest.raises(LoaderWorkerLostError, match=rf"loader-\d \(process \d+\) {said}"):
        take(source, 4)

    assert workers() == []


def test_a_worker_that_is_lost_while_idle_is_said_at_the_next_request(opened: Opened) -> None:
    source = opened(Numbers(100))
    take(source, 0)
    os.kill(workers()[0], signal.SIGKILL)

    with pytest.raises(LoaderWorkerLostError, match="was killed"):
        take(source, 0, microbatches=20)


def test_workers_outlive_the_signals_of_an_interruption(opened: Opened) -> None:
    source = opened(Numbers(100), num_workers=2)
    source.expect(Block(0, 1, 2))
    for pid in workers():  # at once: they ignore them before they can receive any
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)

    assert take(source, 0, microbatches=2) == [0, 1, 2, 3]
    source.close()


def train_for_ever(tell: Connection, does: Callable[[], None]) -> None:
    source = open_for_tests(Failing(100, 0, does), num_workers=2)
    source.expect(Block(0, 2, 2))
    tell.send(workers())
    signal.pause()


@pytest.mark.parametrize("is_main_thread", [True, False])
def test_no_worker_outlives_a_training_process_that_was_killed(is_main_thread: bool) -> None:
    def train() -> None:
        if is_main_thread:
            # One worker is in the middle of a sample; unless Linux ends it, it never looks up.
            train_for_ever(tell, signal.pause)
        else:
            thread = threading.Thread(target=train_for_ever, args=(tell, lambda: None))
            thread.start()
            thread.join()

    hear, tell = FORK.Pipe(duplex=False)
    training = FORK.Process(target=train)
    training.start()
    tell.close()
    assert hear.poll(20)
    pids = hear.recv()
    assert all(is_running(pid) for pid in pids)

    training.kill()
    training.join()

    try:
        until(lambda: not any(is_running(pid) for pid in pids), "the workers have ended")
    finally:
        for pid in filter(is_running, pids):
            os.kill(pid, signal.SIGKILL)


def test_a_training_that_does_not_close_its_source_ends_all_the_same() -> None:
    program = """if True:
        from spotrun_trainer.data.order.sharding import Block
        from spotrun_trainer.data.source import open_source

        source = open_source(range(100), microbatch=2, seed=1, num_workers=2)
        print([batch.shape for batch in source.microbatches(Block(0, 2, 2, stride=4))])
    """
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )

    assert (
        ran.stdout,
        ran.stderr,
        ran.returncode,
    ) == ("[torch.Size([2]), torch.Size([2])]\n", "", 0)


def test_sockets_are_closed_when_the_training_process_closes_them(opened: Opened) -> None:
    # A peer sees that a process has left its group, or is gone, by that.
    ours, peers = socket.socketpair()
    source = opened(Numbers(100))
    take(source, 0)
    ours.close()
    peers.settimeout(10)

    assert peers.recv(1) == b""

    peers.close()


def who_loads() -> torch.Tensor:
    info = get_worker_info()
    assert info is not None
    return torch.tensor(info.num_workers)


def test_a_dataset_can_ask_torch_which_worker_it_is_in(opened: Opened) -> None:
    assert take(opened(Failing(100, 1, who_loads), num_workers=3), 0) == [0, 3]


def test_files_that_a_dataset_has_open_stay_open(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(range(100)))
    with (tmp_path / "data").open("rb", buffering=0) as data:
        source = opened(
            Failing(100, 1, does=lambda: torch.tensor(os.pread(data.fileno(), 1, 42)[0]))
        )
        assert take(source, 0) == [0, 42]
    source.close()


@pytest.fixture
def _spawning() -> Iterator[None]:
    multiprocessing.set_start_method("spawn", force=True)
    yield
    multiprocessing.set_start_method(None, force=True)


@pytest.mark.usefixtures("_spawning")
def test_workers_are_spawned_if_the_program_says_so(opened: Opened) -> None:
    source = opened(Numbers(100))
    source.expect(Block(0, 1, 2))
    os.kill(workers()[0], signal.SIGTERM)  # long before it has imported anything

    assert take(source, 0) == [0, 1]
    source.close()


@pytest.mark.usefixtures("_spawning")
def test_a_dataset_that_cannot_be_spawned_is_refused_in_a_sentence(opened: Opened) -> None:
    source = opened(Failing(100, 0, does=lambda: None))

    with pytest.raises(ValueError, match=r"cannot be sent to a loader worker.*num_workers=0"):
        take(source, 0)
