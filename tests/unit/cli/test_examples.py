"""Our own examples can be done, by our own estimate, and run at the hours that they mean."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from spotrun.api.spec.schedule import Schedule
from spotrun.cli.kubectl import main
from spotrun.policies.lifecycle.schedule_windows import is_open, next_change
from spotrun.simulate.estimate.manifest import read

FOLDER = Path(__file__).parents[3] / "examples"
JOBS = [
    path for path in sorted(FOLDER.glob("*.yaml")) if "\nkind: TrainingJob\n" in path.read_text()
]
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)  # in no week in which clocks are changed
WORKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri")
CLOSED = {"off-peak": [f"{day} 06:00 to {day} 20:00" for day in WORKDAYS]}
"""All the hours of a week in which a job with a schedule does not run."""

every_job = pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)


def command(path: Path) -> list[str]:
    """What the example itself tells to type, with the file where it is."""
    told = re.findall(
        r"^# .*: kubectl tjob (estimate -f examples/(\S+) .*)$", path.read_text(), re.MULTILINE
    )
    ((line, name),) = told
    assert name == path.name
    return [str(path) if word.startswith("examples/") else word for word in line.split()]


def estimated(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What our estimate says of it on each market, from one moment."""
    assert main([*command(path), "--starts", "1", "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {market["market"]: market for market in answer["markets"]}


@every_job
def test_an_example_gets_done_in_time_and_within_its_budget(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    troubles = ("unfinished", "deadlines_missed", "over_budget")
    found = estimated(path, capsys)

    assert found
    assert [(name, trouble) for name in found for trouble in troubles if found[name][trouble]] == []


def closed(schedule: Schedule) -> list[str]:
    """The stretches of a week outside all windows, on the clock of the first of them."""
    zone = ZoneInfo(schedule.windows[0].time_zone)
    begin = MONDAY.replace(tzinfo=zone).astimezone(UTC)
    end, at, found = begin + timedelta(weeks=1), begin, []
    while at < end:
        until = min(next_change(schedule, at) or end, end)
        if not is_open(schedule, at):
            found.append(f"{at.astimezone(zone):%a %H:%M} to {until.astimezone(zone):%a %H:%M}")
        at = until
    return found


def test_a_schedule_leaves_out_the_hours_that_it_is_meant_to_leave_out() -> None:
    schedules = {path.stem: read(str(path)).spec.schedule for path in JOBS}
    holes = {name: closed(one) for name, one in schedules.items() if one is not None}

    assert holes == CLOSED
