"""The page on a job's life leaves out nothing a user can meet."""

from pathlib import Path

import pytest

from spotrun.api.names import Choice, ConditionType, Phase, Reason, SuspendedBy

PAGE = (Path(__file__).parents[2] / "docs" / "job-life.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("name", [*Phase, *ConditionType, *Reason, *SuspendedBy], ids=str)
def test_the_page_says_what_it_means_and_what_to_do(name: Choice) -> None:
    rows = [row for row in ROWS if row.startswith(f"| `{name.value}` |")]
    assert rows, f"docs/job-life.md has no row for {name.value}"
    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))


def test_the_page_explains_nothing_that_does_not_exist() -> None:
    known = {name.value for name in (*Phase, *ConditionType, *Reason, *SuspendedBy)}
    assert {row.split("`")[1] for row in ROWS} <= known
