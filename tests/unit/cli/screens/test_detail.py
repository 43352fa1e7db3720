"""`show`: whole screens of jobs in different states."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spotrun.cli.jobs.screens.detail import Facts, detail
from spotrun.cli.jobs.screens.reasons import why
from spotrun.cli.jobs.workers import Place
from spotrun.cli.text.look import Look
from tests.support.screens.shown_jobs import (
    WAITING,
    shown_events,
    shown_job,
    shown_pods,
    shown_pools,
)

LOOK = Look(datetime(2026, 3, 1, 12, tzinfo=UTC), width=100)
EVENT = (
    *("2026-03-01T11:20:10.123Z", "Training"),
    "world 7: 6 workers, entered by Abort; worker 5 was taken away",
)


PAGE = Path(__file__).parents[4] / "docs/command-line.md"


def test_the_documents_show_what_is_shown() -> None:
    page = PAGE.read_text()
    facts = Facts(shown_job(), shown_pods(0, 9, 10), shown_pools(), shown_events(EVENT))
    for lines in (detail(facts, LOOK), why(facts.job, facts.pools, LOOK)):
        assert "\n".join(f"    {line}".rstrip() for line in lines) in page


def test_a_job_that_trains_is_one_screen() -> None:
    facts = Facts(shown_job(), shown_pods(0, 9, 10), shown_pools(), shown_events(EVENT))
    assert (
        "\n".join(detail(facts, LOOK))
        == """\
ml/gpt  Running, made 3h12m ago
6 workers train; 2 more have no node.

Workers     6/8 running: 5 spot and 1 on demand; 2 to 8 allowed, chosen by the operator; at most 6
            now (NoCapacity)
Progress    #########............... 41%, step 41,200 of 100,000, 0.0806 s a step, 2,064 samples/s,
            1h19m left
Checkpoint  step 41,000, 38s ago (step-41000.g7)
Cost        $38.12 so far; $14.40/h now; $57.10 ($52.00 to $63.00) at the end; budget $80.00, 48%
            used
Savings     $96.40 on demand for the same steps: saved $58.28 (60%); lost work $1.90; goodput 93%
Deadline    to be done by 2026-03-01T16:00:00Z (4h left): it will end 2h41m early
Losses      2 workers taken away, 12 steps done again; last 41m ago: Reclaimed on ip-10-0-3-7

RANK  WORKER  STATE    CAPACITY   $/H  NODE          ZONE        MACHINE    AGE  POD
   0       0  Running  Spot      1.92  ip-10-0-3-0   us-east-1a  g5.xlarge   3h  gpt-abcde-0
   5       9  Running  Spot      4.80  ip-10-0-3-9   us-east-1a  g5.xlarge   3h  gpt-abcde-9
   -      10  Leaving  Spot         -  ip-10-0-3-10  us-east-1a  g5.xlarge   3h  gpt-abcde-10

Worlds (of the last hour)
  11:20:10  world 7: 6 workers, entered by Abort; worker 5 was taken away

Decisions, the newest last
  11:00:00  Grow: 6 workers: the GPU computes 96% of a step, and a target is 70%
  11:20:00  Placed: 2 workers are asked from spot-a10g at $1.92/h

What to do next
  * nothing. `kubectl tjob logs gpt -f` shows what it says"""
    )


def screen(**status: Any) -> str:
    return "\n".join(detail(Facts(shown_job(status=status)), LOOK))


@pytest.mark.parametrize(
    ("status", "next_step"),
    [
        (WAITING, "  * WaitingForCapacity: allow more pools or on-demand"),
        (
            {"phase": "Suspended", "reason": "SuspendedByUser", "suspendedBy": ["User"]},
            "  * SuspendedByUser: `kubectl tjob resume gpt` continues it",
        ),
        (
            {"phase": "Failed", "reason": "OOMKilled", "message": "worker 3 was killed"},
            "  * OOMKilled: raise the memory limit, or use smaller microbatches",
        ),
        (
            {"phase": "Succeeded", "reason": "Completed"},
            "  * nothing: it is done. `kubectl tjob cost gpt` has the bill",
        ),
        ({"phase": "", "reason": ""}, "  * NotSeen: `kubectl tjob doctor` checks whether one runs"),
    ],
    ids=["it waits", "its user holds it", "it failed", "it is done", "nobody has seen it"],
)
def test_the_next_step_is_said(status: dict[str, Any], next_step: str) -> None:
    assert next_step in screen(**status)


def test_colours_are_only_where_they_are_seen() -> None:
    job = shown_job()
    painted = "\n".join(detail(Facts(job), Look(LOOK.now, 100, has_colours=True)))
    assert "\x1b[32mRunning\x1b[0m" in painted
    assert "\x1b" not in "\n".join(detail(Facts(job), LOOK))


def test_decisions_of_another_day_have_their_day() -> None:
    later = Look(datetime(2026, 3, 4, tzinfo=UTC), width=100)
    lines = detail(Facts(shown_job()), later)
    assert (
        "  01 Mar    Grow: 6 workers: the GPU computes 96% of a step, and a target is 70%" in lines
    )


def test_a_node_that_may_be_read_knows_best_where_it_is() -> None:
    places = {"ip-10-0-3-9": Place("us-east-1c", "g6.xlarge")}
    lines = detail(Facts(shown_job(), shown_pods(9, 10), shown_pools(), places=places), LOOK)
    [here] = [line for line in lines if "ip-10-0-3-9" in line]
    assert ("us-east-1c" in here, "g6.xlarge" in here) == (True, True)


@pytest.mark.parametrize(
    ("why", "line"),
    [
        (None, "Stage       long, 2 of 3, since step 1,000\n"),
        ("no better", "Stage       long, 2 of 3, since step 1,000; it ends: no better\n"),
    ],
)
def test_the_stage_is_said(why: str | None, line: str) -> None:
    stages = [{"name": "short"}, {"name": "long"}, {"name": "last"}]
    stage = {"name": "long", "index": 1, "sinceStep": 1000, **({"why": why} if why else {})}
    job = shown_job(spec={"stages": stages}, status={"stage": stage})
    assert line in "\n".join(detail(Facts(job), LOOK))
    assert "Stage" not in screen()


def test_the_age_of_the_local_tier_is_a_line_of_its_own() -> None:
    kept = {"step": 41_190, "time": "2026-03-01T11:59:57Z"}
    assert "\nLocal tier  step 41,190, 3s ago\n" in screen(localCheckpoint=kept)
    assert "Local tier" not in screen()
