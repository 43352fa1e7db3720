"""What becomes of a process whose world has ended, by how it ended and what carried it."""

from dataclasses import replace

import pytest

from spotrun_trainer.elastic.connections import Connections
from spotrun_trainer.elastic.errors import LeftError, PeerLostError
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.world_context import open_context
from tests.support.processes.trainer_world import run_alone


def left(error: Exception | None, is_nccl: bool) -> tuple[bool, bool]:
    """Leave a world: whether only a new process can go on, and whether connections were cut."""
    context = open_context(0, deterministic=False, place=None, keep=1, device="cpu")
    context.rank_info = replace(context.rank_info, elastic=True)
    connections = Connections()
    context._group = Group(is_nccl=is_nccl, connections=connections)
    context.leave_world(error)
    return context.is_left_to_the_agent, connections.are_cut


@pytest.mark.parametrize(
    ("error", "is_nccl", "expected"),
    [
        (None, False, (False, False)),
        (None, True, (False, False)),
        (LeftError("told to end"), False, (False, True)),
        (LeftError("told to end"), True, (False, False)),
        (PeerLostError("gone"), False, (False, True)),
        (PeerLostError("gone"), True, (True, True)),
    ],
)
def test_only_after_a_break_over_nccl_a_process_cannot_go_on(
    error: Exception | None, is_nccl: bool, expected: tuple[bool, bool]
) -> None:
    ended = run_alone(left, error, is_nccl)
    assert ended.error == "", ended.said
    assert ended.value == expected
