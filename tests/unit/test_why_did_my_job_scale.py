"""The page on sizes explains every reason, and none that does not exist."""

from pathlib import Path

import pytest

from spotrun.api.names import ScalingReason

PAGE = (Path(__file__).parents[2] / "docs" / "why-did-my-job-scale.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("reason", ScalingReason, ids=str)
def test_each_reason_is_explained_once_with_what_one_can_do(reason: ScalingReason) -> None:
    [row] = [row for row in ROWS if row.startswith(f"| `{reason.value}` |")]
    assert [cell for cell in row.strip("|").split("|") if not cell.strip()] == []


def test_nothing_is_explained_that_does_not_exist() -> None:
    assert {row.split("`")[1] for row in ROWS} == {reason.value for reason in ScalingReason}
