"""A little of bench/chaos.py: worlds that change at random, by a seed."""

from pathlib import Path

import pytest

from bench.chaos import Chaos, compare

BURSTS = 6


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
    assert compare(tmp_path) == []
