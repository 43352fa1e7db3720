"""`kubectl tjob estimate` as it is typed: what it prints, and what it refuses."""

import io
import json
import multiprocessing
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from spotrun.cli.kubectl import main
from tests.unit.simulate.markets import a_file

MANIFEST: dict[str, Any] = {
    "apiVersion": "spotrun.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "gpt"},
    "spec": {
        "workers": {
            "template": {
                "spec": {"containers": [{"name": "trainer", "image": "train:1", "args": ["a.py"]}]}
            }
        },
        "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "checkpoints"}}},
    },
}
Say = Callable[..., str]


def a_manifest(**spec: object) -> str:
    return yaml.safe_dump({**MANIFEST, "spec": {**MANIFEST["spec"], **spec}})


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten days: three hours with spot, one without, and so on."""
    ticks = ([1] * 18 + [0] * 6) * 60
    return a_file(tmp_path, capacity_probed=1, available=ticks, spot_price=1.5)


@pytest.fixture
def say(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Ask about a manifest on standard input; answers what was printed."""

    def ask(manifest: str, *flags: str) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(manifest))
        assert main(["estimate", "-f", "-", "--trace", str(trace), *flags]) == 0
        return capsys.readouterr().out

    return ask


def test_programs_get_every_replay_and_how_far_they_lie_apart(say: Say) -> None:
    manifest = a_manifest(deadline={"finishWithin": "10h"}, budget={"maxCostUsd": "100"})

    answer = json.loads(say(manifest, "--work-hours", "6", "--starts", "3", "--json"))

    assert (answer["job"], answer["work_hours"], answer["deadline_hours"]) == ("gpt", 6, 10)
    (market,) = answer["markets"]
    runs = sorted(run["cost_usd"] for run in market["runs"])
    assert len(runs) == 3
    assert market["cost_usd"] == {"least": runs[0], "middle": runs[1], "most": runs[2]}
    assert market["deadlines_missed"] == sum(not run["deadline_met"] for run in market["runs"])
    assert (market["over_budget"], market["unfinished"]) == (0, 0)
    assert market["on_demand_usd"] == pytest.approx((6 + 1 / 6) * 3.06)
    cheapest = 100 * (1 - runs[0] / market["on_demand_usd"])
    assert market["saved_percent"]["most"] == pytest.approx(cheapest)
    assert market["recorded_from"].startswith("2023-02-15")
    assert market["fewer_replays"] is None
    assert (answer["max_cost_usd"], answer["budget_left_usd"]) == (100, 100)


def test_people_get_a_line_for_each_figure(say: Say) -> None:
    said = say(a_manifest(), "--work-hours", "6", "--starts", "1").splitlines()

    assert said[0] == "gpt: 6.0 h of work at size 1"
    assert said[2] == "p3.2xlarge in us-west-2a, 2023-02-15 to 2023-02-25, replays: 1"
    assert said[3].split() == ["least", "middle", "most"]
    assert [line.split("  ")[1] for line in said[4:9]] == [
        "cost, $",
        "saved, %",
        "done after, h",
        "nodes taken away",
        "work lost, h",
    ]
    assert "late" not in " ".join(said)
    assert "on-demand alone: 18.87 $" in said[5]


IN_S3 = {"checkpoint": {"uri": "s3://models/checkpoints", "every": "10m"}}


def test_checkpoints_in_a_bucket_cost_money_beside(say: Say, tmp_path: Path) -> None:
    flags = ("--work-hours", "6", "--starts", "1", "--checkpoint-gb", "14", "--json")
    (market,) = json.loads(say(a_manifest(**IN_S3), *flags))["markets"]
    (run,) = market["runs"]
    trained = (run["finish_hours"] - run["idle_hours"]) * 3600
    puts = int(trained // 600) * (2 + 14 * 64 + 1 + 4) + int(trained // 6)
    gets = int(trained // 600) * 4 + int(trained // 6) + run["interruptions"] * 14 * 128
    stored = 4 * 14 * run["finish_hours"] / 730 * 0.023
    expected = stored + (puts * 0.005 + gets * 0.0004) / 1000
    assert market["checkpoints_usd"]["middle"] == pytest.approx(expected, abs=1e-4)
    free = tmp_path / "prices.csv"
    free.write_text("store,region,usdPerGbMonth\ns3://models,,0\n")
    told = json.loads(say(a_manifest(**IN_S3), *flags, "--price-table", str(free)))
    assert told["markets"][0]["checkpoints_usd"]["most"] == 0


def test_what_is_not_known_of_checkpoints_is_said(say: Say) -> None:
    flags = ("--work-hours", "6", "--starts", "1")
    assert "give --checkpoint-gb" in say(a_manifest(**IN_S3), *flags)
    said = say(a_manifest(**IN_S3), *flags, "--checkpoint-gb", "1", "--bucket-region", "mars-1")
    assert "no table has its price in mars-1" in said
    said = say(a_manifest(**IN_S3), *flags, "--checkpoint-gb", "1")
    assert re.search(r"checkpoints, \$ .* in addition, for 3 kept, in us-east-1", said)


def test_a_job_that_has_saved_says_how_large_its_checkpoints_are(say: Say) -> None:
    flags = ("--work-hours", "6", "--starts", "1")
    sums = {"storedBytes": 3 * 14 * 2**30, "checkpoints": 3, "region": "us-east-1"}
    job = {**yaml.safe_load(a_manifest(**IN_S3)), "status": {"accumulators": {"storage": sums}}}
    assert say(yaml.safe_dump(job), *flags) == say(
        a_manifest(**IN_S3), *flags, "--checkpoint-gb", "14"
    )


def test_a_budget_stops_the_job_as_in_a_cluster(say: Say) -> None:
    manifest = a_manifest(budget={"maxCostUsd": "4", "onExceeded": "Fail"})

    said = say(manifest, "--work-hours", "6", "--starts", "1")

    assert "done after, h         never      never      never  1 of 1 not finished" in said
    assert "saved, %                  -          -          -" in said
    assert "for at most 4 $" in said


def test_your_own_prices_take_the_place_of_the_recorded_ones(say: Say) -> None:
    prices = ("--spot-price", "0", "--on-demand-price", "12")

    answer = json.loads(say(a_manifest(), "--work-hours", "1", "--starts", "1", *prices, "--json"))

    (market,) = answer["markets"]
    assert market["on_demand_usd"] == pytest.approx(14)
    assert market["cost_usd"]["most"] == 0


def test_nothing_is_saved_where_on_demand_is_free(say: Say) -> None:
    said = say(a_manifest(), "--work-hours", "1", "--starts", "1", "--on-demand-price", "0")

    assert "saved, %                  -          -          -  on-demand alone: 0.00 $" in said


def test_the_rest_of_a_job_that_trains_follows_from_its_status(say: Say) -> None:
    status = {
        "progress": {"step": 400, "totalSteps": 1000},
        "pace": {"stepSeconds": "12", "workers": 1},
        "phase": "Running",
        "ofAnOperatorThatIsNewer": 1,
    }
    manifest = yaml.safe_dump({**MANIFEST, "status": status})

    assert json.loads(say(manifest, "--starts", "1", "--json"))["work_hours"] == 2


def test_what_a_job_has_spent_is_gone(say: Say) -> None:
    status = {
        "progress": {"step": 500, "totalSteps": 1000},
        "pace": {"stepSeconds": "36", "workers": 1},
        "cost": {"usd": "19.40", "storage": {"usd": "0.10"}, "remainingUsd": "0.50"},
    }
    spec = {**MANIFEST["spec"], "budget": {"maxCostUsd": "20"}}
    manifest = yaml.safe_dump({**MANIFEST, "spec": spec, "status": status})

    said = say(manifest, "--starts", "2")
    answer = json.loads(say(manifest, "--starts", "2", "--json"))

    assert said.startswith(
        "gpt: 5.0 h of work at size 1, for at most 20 $, of which 0.50 $ are left\n"
    )
    assert "2 of 2 not finished" in said
    assert (answer["max_cost_usd"], answer["budget_left_usd"]) == (20, 0.5)
    assert answer["markets"][0]["cost_usd"]["most"] <= 0.5


def test_a_budget_that_only_warns_is_exceeded_by_whatever_is_spent_beyond_it(say: Say) -> None:
    budget = {"maxCostUsd": "20", "onExceeded": "Warn"}
    spec = {**MANIFEST["spec"], "budget": budget}
    manifest = yaml.safe_dump({**MANIFEST, "spec": spec, "status": {"cost": {"usd": "21"}}})

    said = say(manifest, "--work-hours", "1", "--starts", "1")

    assert "for at most 20 $, of which 0.00 $ are left" in said
    assert "1 of 1 over the budget" in said
    assert "not finished" not in said


def test_a_deadline_with_slack_leaves_room_for_many_starts(say: Say) -> None:
    """Of 240 h a replay needs 144: what is due in 120, and a day more."""
    manifest = a_manifest(deadline={"finishWithin": "120h"})

    answer = json.loads(say(manifest, "--work-hours", "1", "--starts", "4", "--json"))

    (market,) = answer["markets"]
    assert (len(market["runs"]), market["fewer_replays"]) == (4, None)


def test_fewer_starts_than_were_asked_for_are_accounted_for(say: Say) -> None:
    manifest = a_manifest(deadline={"finishWithin": "230h"})
    why = "3 were asked for, but a replay may take 254 h, and 240 h were recorded"

    said = say(manifest, "--work-hours", "1", "--starts", "3").splitlines()
    answer = json.loads(say(manifest, "--work-hours", "1", "--starts", "3", "--json"))

    assert said[2:4] == [
        "p3.2xlarge in us-west-2a, 2023-02-15 to 2023-02-25, replays: 1",
        f"  {why}",
    ]
    assert answer["markets"][0]["fewer_replays"] == why


@pytest.mark.parametrize(
    ("due", "budget", "met", "said"),
    [
        pytest.param("5h", "100", True, "0 of 1 late", id="in time"),
        pytest.param("4h", "100", False, "1 of 1 late", id="done after it"),
        pytest.param("200h", "2", False, "1 of 1 late, 1 of 1 not finished", id="never done"),
        pytest.param(
            "250h", "2", None, "0 of 1 late, 1 of 1 not finished", id="recorded before it"
        ),
    ],
)
def test_who_is_not_done_is_late_only_once_the_deadline_has_passed(
    say: Say, due: str, budget: str, met: bool | None, said: str
) -> None:
    manifest = a_manifest(
        deadline={"finishWithin": due},
        placement={"capacity": "Spot"},
        budget={"maxCostUsd": budget},
    )
    flags = ("--work-hours", "3", "--starts", "1")

    text = say(manifest, *flags).splitlines()
    (market,) = json.loads(say(manifest, *flags, "--json"))["markets"]

    (done,) = (line for line in text if line.startswith("  done after"))
    assert done.endswith(f"  {said}")
    assert [run["deadline_met"] for run in market["runs"]] == [met]
    assert market["deadlines_missed"] == (met is False)


def refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, *flags: str
) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    with pytest.raises(SystemExit) as ended:
        main(["estimate", *flags])
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return " ".join(printed.err.split())


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["-f", "-"], "the amount of work is unknown, because the job has no status"),
        (["-f", "none.yaml"], "none.yaml cannot be read: No such file or directory"),
        (["--work-hours", "6"], "the following arguments are required: -f/--filename"),
        (["-f", "-", "--work-hours", "0"], "'0' is not hours from 0.001 to 100000"),
        (["-f", "-", "--starts", "0"], "'0' is not a whole number from 1"),
        (["-f", "-", "--work-hours", "400"], "240 h were recorded, but the work alone takes 400 h"),
        (["-f", "-", "--fly"], "unrecognized arguments: --fly; `kubectl tjob estimate --help`"),
    ],
)
def test_what_was_asked_wrongly_is_said_and_nothing_is_replayed(
    trace: Path,
    flags: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = refused(capsys, monkeypatch, a_manifest(), "--trace", str(trace), *flags)

    assert complaint in said


def test_a_standard_input_that_is_closed_is_no_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(SystemExit) as ended:
        main(["estimate", "-f", "-"])

    assert ended.value.code == 2
    assert "error: standard input is closed: pipe the job into it" in capsys.readouterr().err


def test_a_market_that_never_had_so_many_nodes_is_not_asked(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("-f", "-", "--work-hours", "6", "--trace", str(trace))
    workers = {**MANIFEST["spec"]["workers"], "max": 4}

    said = refused(capsys, monkeypatch, a_manifest(workers=workers), *flags)

    assert "at most 1 nodes at a time were probed, but the job wants 4" in said
    assert "--assume-capacity" in said


def test_ctrl_c_ends_all_of_it(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", io.StringIO(a_manifest()))
    monkeypatch.setattr("spotrun.simulate.estimate.command._show_progress", interrupted)

    assert main(["estimate", "-f", "-", "--work-hours", "6", "--trace", str(trace)]) == 130
    printed = capsys.readouterr()
    assert printed.err == "\nkubectl tjob estimate: interrupted before its end\n"
    assert printed.out == ""
    assert multiprocessing.active_children() == []


def test_nothing_is_left_of_an_estimate_that_was_killed(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "job.yaml").write_text(a_manifest())
    flags = ["-f", str(tmp_path / "job.yaml"), "--work-hours", "90", "--trace", str(trace)]
    command = [sys.executable, "-m", "spotrun.cli.kubectl", "estimate", *flags]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as estimate:
        started = wait_for(lambda: children(estimate.pid))
        estimate.kill()

    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


def children(pid: int) -> list[int]:
    """Those that replay; empty until there is one."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def wait_for(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 30
    while not (it := found()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return it
