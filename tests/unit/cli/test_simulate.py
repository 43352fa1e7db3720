"""`spotrun simulate` as it is typed: what it prints, and what it refuses."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spotrun.__main__ import main
from spotrun.cli.replay.simulate_flags import POLICIES
from spotrun.simulate import peers
from tests.unit.simulate.markets import a_file

KEYS = [
    "policy",
    "cost_usd",
    "finish_hours",
    "deadline_met",
    "launches",
    "interruptions",
    "spot_hours",
    "on_demand_hours",
    "idle_hours",
    "lost_work_hours",
]
Say = Callable[..., str]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Eight hours: an hour with spot, half an hour without, and so on."""
    ticks = ([1] * 6 + [0] * 3) * 5
    return a_file(tmp_path, capacity_probed=1, available=ticks, spot_price=1.5)


@pytest.fixture
def say(trace: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    def ask(*more: str) -> str:
        base = ["simulate", "--trace", str(trace), "--work-hours", "1", "--deadline-hours", "3"]
        assert main([*base, *more]) == 0
        return capsys.readouterr().out

    return ask


@pytest.mark.parametrize("policy", POLICIES)
def test_one_replay_is_one_object(say: Say, policy: str) -> None:
    answer = json.loads(say("--policy", policy, "--json"))

    assert list(answer) == KEYS
    assert answer["policy"] == policy
    assert answer["deadline_met"] is True
    assert answer["cost_usd"] > 0


def test_several_starts_are_one_object_with_their_mean(say: Say) -> None:
    answer = json.loads(
        say("--start-tick", "2", "--every", "5", "--starts", "3", "--policy", "greedy", "--json")
    )

    runs: list[dict[str, Any]] = answer["runs"]
    assert [run["start_tick"] for run in runs] == [2, 7, 12]
    assert [list(run)[1:] for run in runs] == [KEYS] * 3
    assert answer["cost_usd"] == pytest.approx(sum(run["cost_usd"] for run in runs) / 3)
    assert answer["deadlines_missed"] == 0


def test_a_missed_deadline_is_an_answer_and_no_error(say: Say) -> None:
    answer = json.loads(
        say(
            *("--deadline-hours", "0.5", "--policy", "greedy", "--json"),
            *("--every", "1", "--starts", "2"),
        )
    )

    assert answer["deadlines_missed"] == 2
    assert answer["deadline_met"] is False


def test_people_get_a_table(say: Say) -> None:
    lines = dict(line.rsplit(maxsplit=1) for line in say("--policy", "on-demand").splitlines())

    assert lines["deadline met"] == "yes"
    assert lines["cost usd"] == "3.57"  # seven ticks at 3.06 dollars an hour
    assert lines["spot hours"] == "0.00"


def test_elastic_jobs_are_given_by_three_numbers(tmp_path: Path, say: Say) -> None:
    wide = a_file(tmp_path, capacity_probed=4, available=[4] * 60, spot_price=1)

    sizes = ("--workers", "2", "--min-workers", "1", "--max-workers", "4")
    answer = json.loads(say("--trace", str(wide), *sizes, "--json"))

    assert answer["finish_hours"] == pytest.approx(1 / 6 + 1 / 2, abs=0.05)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--work-hours", "0"], "argument --work-hours: '0' is not hours from 0.001 to 100000"),
        (["--starts", "2.5"], "'2.5' is not a whole number from 1 to 10000000"),
        (["--changeover-minutes", "nan"], "'nan' is not minutes from 0 to 100000"),
        (["--on-demand-dry-rate", "2"], "'2' is not a share from 0 to 1"),
        (["--policy", "hope"], "invalid choice: 'hope'"),
        (["--starts", "3"], "--every and --starts go together"),
        (["--every", "3"], "--every and --starts go together"),
        (["--min-workers", "2"], "--min-workers 2, --workers 1 and --max-workers 1 must ascend"),
        (["--start-tick", "40"], "the last tick from which they reach the deadline is 27"),
        (
            ["--deadline-hours", "9"],
            "the shortest trace has 7.5 h, but the deadline is after 9.0 h",
        ),
        (["--trace", "none.json"], "none.json cannot be read: No such file or directory"),
    ],
)
def test_what_was_asked_wrongly_is_said_and_nothing_is_replayed(
    trace: Path, flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["simulate", "--trace", str(trace), "--work-hours", "1", "--deadline-hours", "3"]

    with pytest.raises(SystemExit) as ended:
        main([*base, *flags])

    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert complaint in printed.err
    assert printed.out == ""


def test_the_optimum_says_what_it_lacks(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "spotrun.simulate.peers.optimum", raising=False)
    monkeypatch.delattr(peers, "optimum", raising=False)
    base = ["simulate", "--trace", str(trace), "--work-hours", "1", "--deadline-hours", "3"]

    with pytest.raises(SystemExit):
        main([*base, "--policy", "optimum"])

    assert "the optimum needs numpy" in capsys.readouterr().err


def test_ctrl_c_is_an_end_and_not_a_traceback(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("spotrun.simulate.replay_runs.run", interrupted)
    base = ["simulate", "--trace", str(trace), "--work-hours", "1", "--deadline-hours", "3"]
    assert main(base) == 130
    assert capsys.readouterr().err == "\nspotrun simulate: interrupted before its end\n"
