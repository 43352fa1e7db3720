"""`list`: whole tables, their order, and the rows for programs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from spotrun.cli.jobs.screens.listing import as_data, in_order, listing
from spotrun.cli.text.look import Look
from tests.support.screens.shown_jobs import WAITING, shown_job

LOOK = Look(datetime(2026, 3, 1, 12, tzinfo=UTC), width=132)
NOTHING_SPENT: dict[str, Any] = {"cost": {}, "progress": {}}
JOBS = (
    shown_job("gpt"),
    shown_job("bert", status={"cost": {"usd": "100", "usdPerHour": "2"}}),
    shown_job("wait", status={**WAITING, **NOTHING_SPENT}),
    shown_job("dead", status={"phase": "Failed", "reason": "ExitCode", "message": "exit code 1"}),
    shown_job("done", status={"phase": "Succeeded", "reason": "Completed", "progress": {}}),
)


def test_the_jobs_that_need_somebody_are_first() -> None:
    assert (
        "\n".join(listing(JOBS, "trouble", LOOK, is_everywhere=False))
        == """\
NAME  PHASE      WORKERS  SPOT  DONE   LEFT  COST($)    $/H  SAVED($)  BUDGET    AGE  WHY
dead  Failed         6/8     5   41%  1h19m    38.12  14.40     58.28     48%  3h12m  ExitCode: exit code 1
wait  Pending        0/2     -     -      -        -      -         -       -  3h12m  WaitingForCapacity: 0 of 2 workers have a n...
gpt   Running        6/8     5   41%  1h19m    38.12  14.40     58.28     48%  3h12m
bert  Running        6/8     5   41%  1h19m   100.00   2.00         -       -  3h12m
done  Succeeded      6/8     5     -      -    38.12  14.40     58.28     48%  3h12m

5 jobs (2 Running, 1 Pending, 1 Failed, 1 Succeeded): $45.20/h now, $214.36 so far, $174.84 saved by spot"""  # noqa: E501 - as wide as a terminal
    )


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("trouble", ["dead", "wait", "gpt", "bert", "done"]),
        ("dollars", ["bert", "dead", "done", "gpt", "wait"]),
        ("rate", ["dead", "done", "gpt", "bert", "wait"]),
        ("name", ["bert", "dead", "done", "gpt", "wait"]),
    ],
)
def test_an_order_is_kept(order: str, names: list[str]) -> None:
    assert [job.metadata.name for job in in_order(JOBS, order)] == names


def test_the_namespace_is_a_column_where_there_are_several() -> None:
    lines = listing(JOBS[:1], "name", LOOK, is_everywhere=True)
    assert [line.split()[:2] for line in lines[:2]] == [["NAMESPACE", "NAME"], ["ml", "gpt"]]


def test_a_narrow_terminal_cuts_the_last_column_only() -> None:
    narrow = listing(JOBS[2:3], "name", Look(LOOK.now, width=60), is_everywhere=False)
    assert narrow[:2] == [
        "NAME  PHASE    WORKERS    AGE  WHY",
        "wait  Pending      0/2  3h12m  WaitingForCapacity: 0 of 2...",
    ]


def test_programs_get_amounts_as_text() -> None:
    row = as_data(JOBS[0], LOOK.now)
    assert (row["usd"], row["usdPerHour"], row["ageSeconds"], row["troubles"]) == (
        *("38.12", "14.4"),
        *(11_520, []),
    )
