"""Every format gives each sample exactly once per epoch, however often the world changes."""

from pathlib import Path

import pytest

from bench.data_changes import changing
from spotrun_trainer.data import mix
from tests.unit.trainer.data.formats.files import KINDS, TOTAL, fill, numbers, opened


@pytest.mark.parametrize("kind", KINDS)
def test_position_is_exact_over_changes_of_the_world(tmp_path: Path, kind: str) -> None:
    fill(tmp_path / "data", kind)
    trained = changing(lambda: opened(tmp_path / "data", kind, window=10), 30, 1)
    seen = numbers(kind, iter(trained))

    for epoch in range(len(seen) // TOTAL):
        assert sorted(seen[epoch * TOTAL : (epoch + 1) * TOTAL]) == list(range(TOTAL))
    assert len(seen) >= 3 * TOTAL


def test_a_mixture_goes_on_in_all_its_datasets(tmp_path: Path) -> None:
    for name, kind in (("a", "tokens"), ("b", "frames")):
        fill(tmp_path / name, kind)

    def open_it() -> object:
        both = [opened(tmp_path / name, "tokens", window=10) for name in ("a", "b")]
        return mix(both, [1, 2])

    one, other = (changing(open_it, 12, seed) for seed in (2, 3))
    count = min(len(one), len(other))
    assert count > 2 * TOTAL
    assert [one[n].tolist() for n in range(count)] == [other[n].tolist() for n in range(count)]
