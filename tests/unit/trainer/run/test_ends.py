"""Processes that end while something is under way in their group."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in __all__

from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import find_rank_info
from tests.support.processes.trainer_world import Process, place_of
from tests.unit.trainer.ending import LINGER, PATIENCE_SECONDS, run_script
from tests.unit.trainer.run.test_joining_workers import wait_for

FAILS_AMID = """
import os, torch
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import find_rank_info

group = Group.form(find_rank_info(os.environ, None), device=torch.device("cpu"))
group.all_gather(torch.ones(1))  # so the other one is there
{}
raise ZeroDivisionError
"""
A_SUM = "group.all_reduce(torch.ones(1))"
MESSAGES = "group.send(iter(lambda: torch.ones(1_000_000), None), 1)"


def take_no_part(over: Path) -> None:
    _group = form_with_the_other()
    wait_for(over)


def take_them_slowly(over: Path) -> None:
    group = form_with_the_other()
    with suppress(PeerLostError):
        while not over.exists():
            group.receive([torch.ones(1_000_000)], 0).wait()
            time.sleep(0.02)


def form_with_the_other() -> Group:
    group = Group.form(find_rank_info(os.environ, None), device=torch.device("cpu"))
    group.all_gather(torch.ones(1))
    return group


@pytest.mark.parametrize(
    ("what", "peer"), [(A_SUM, take_no_part), (MESSAGES, take_them_slowly)], ids=["sum", "messages"]
)
def test_a_script_that_fails_amid_something_ends_with_that_at_once(
    what: str, peer: Callable[[Path], None], tmp_path: Path
) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    world = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    other = Process(place_of(1) | world, peer, tmp_path / "over")
    try:
        failed = run_script(LINGER + FAILS_AMID.format(what), env=place_of(0) | world)
    finally:
        (tmp_path / "over").touch()
        ended = other.ended(time.monotonic() + PATIENCE_SECONDS)

    assert failed.returncode == 1, failed.stderr
    assert failed.stderr.endswith("\nZeroDivisionError\n")
    assert ended.error == "", ended.said
