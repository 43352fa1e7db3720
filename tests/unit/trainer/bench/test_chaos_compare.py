"""What bench/chaos.py takes for a fault, where torch divides the model and where it does not."""

from pathlib import Path
from typing import Any

import pytest

from bench.chaos_compare import judge

LINE: dict[str, Any] = {
    "step": 3,
    "part": 1,
    "samples": 7.0,
    "loss": 1.5,
    "weights": [20.0, 0.3],
    "sum": 11,
}
MEAN: dict[str, Any] = {"step": 3, "part": 1, "mean": 1.25}
EXPECTED = {(3, 1, False): LINE | {"sum": 12}, (3, 1, True): MEAN}


@pytest.mark.parametrize(
    ("lines", "faults"),
    [
        pytest.param([LINE, MEAN], 0, id="bits may be others than those of the undisturbed"),
        pytest.param([LINE | {"loss": 1.5 + 1e-12}], 0, id="rounding"),
        pytest.param([LINE | {"weights": [20.0 + 1e-10, 0.3]}], 0, id="rounding of large sums"),
        pytest.param([LINE | {"loss": 1.5 + 1e-5}], 1, id="another loss"),
        pytest.param([LINE | {"loss": float("nan")}], 1, id="no number at all"),
        pytest.param([LINE | {"weights": [20.0, 0.3001]}], 1, id="other weights"),
        pytest.param([LINE | {"samples": 6.0}], 1, id="a sample is missing"),
        pytest.param([MEAN | {"mean": 1.26}], 1, id="another mean of an evaluation"),
        pytest.param([LINE, LINE], 1, id="a step that was made twice"),
    ],
)
def test_a_divided_model_may_differ_by_rounding_only(
    lines: list[dict[str, Any]], faults: int
) -> None:
    assert len(judge({Path("seed/w1.jsonl"): lines}, EXPECTED, shard=2).wrong) == faults


def test_all_that_hold_a_part_hold_the_same_bits() -> None:
    other = LINE | {"sum": 10}
    torn = judge({Path("seed/w1.jsonl"): [LINE], Path("seed/w2.jsonl"): [other]}, EXPECTED, 2)
    assert len(torn.wrong) == 1
    apart = judge({Path("one/w1.jsonl"): [LINE], Path("two/w1.jsonl"): [other]}, EXPECTED, 2)
    assert apart.wrong == []  # two trainings


@pytest.mark.parametrize(("checksum", "faults"), [(11, 0), (10, 1)])
def test_a_whole_model_may_differ_in_no_bit(checksum: int, faults: int) -> None:
    expected = {(3, 0, False): {"step": 3, "samples": 7.0, "sum": 11}}
    found: dict[Path, list[dict[str, Any]]] = {
        Path("seed/w1.jsonl"): [{"step": 3, "samples": 7.0, "sum": checksum}]
    }
    assert len(judge(found, expected, shard=1).wrong) == faults
