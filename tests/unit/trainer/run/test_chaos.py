"""A little of bench/chaos.py: worlds that change at random, by a seed."""

import socket
from pathlib import Path

import pytest

from bench import chaos_links
from bench.chaos_bursts import Chaos
from bench.chaos_compare import compare
from bench.chaos_joins import Joins

BURSTS = 6
PATIENCE_SECONDS = 20.0


@pytest.mark.parametrize("seed", [11, 12])
def test_bursts_of_changes_leave_the_weights_of_an_undisturbed_training(
    seed: int, tmp_path: Path
) -> None:
    folder = tmp_path / "seed"
    folder.mkdir()
    chaos = Chaos(folder, seed)
    try:
        chaos.begin()
        for _ in range(BURSTS):
            chaos.burst()
    finally:
        errors = chaos.end()
    assert errors == []
    assert compare(tmp_path).wrong == []


def test_what_is_sent_over_a_link_that_is_cut_comes_through_once_it_is_mended(
    tmp_path: Path,
) -> None:
    own = tmp_path / "a.cut"
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as near,
        listening.accept()[0] as far,
    ):
        chaos_links.cut(tmp_path, "b")
        (tmp_path / "b.cut").write_text(str(far.getsockname()[1]))
        deaf = chaos_links._follow(own, {tmp_path / "b.cut"}, set())
        far.sendall(b"heard of later")
        near.setblocking(False)
        with pytest.raises(BlockingIOError):
            near.recv(1)
        near.settimeout(PATIENCE_SECONDS)
        assert chaos_links._follow(own, set(), deaf) == set()
        assert near.recv(100) == b"heard of later"


def test_losses_right_after_joins_cost_the_others_no_step(tmp_path: Path) -> None:
    """With real agents and the operator's decisions: nobody tells them who is lost."""
    folder = tmp_path / "joins"
    folder.mkdir()
    joins = Joins(folder, seed=5)
    try:
        joins.begin()
        for joining_worker in (True, False):
            joins.kill(joining_worker=joining_worker)
    finally:
        errors = joins.end()
    assert errors == []
    assert joins.steps_lost() == 0
    assert compare(tmp_path).wrong == []
