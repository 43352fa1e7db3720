"""Plans of the campaign: drawn from a seed, written, read, and made simpler."""

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.campaign.journal import Journal, summary, table
from tests.campaign.kinds.every import KINDS
from tests.campaign.oracles import same_end
from tests.campaign.plan import Fault, Plan, drawn, simpler
from tests.campaign.run import Verdict

WRITES = {"create": 12, "loss": 20}
TWO = Plan("loss", (Fault("crash_after", 7, 1), Fault("node_deleted", 9, 2)))


def test_a_seed_always_draws_the_same_plans() -> None:
    first, second = (list(islice(drawn(list(KINDS), WRITES, 3), 200)) for _ in range(2))
    assert first == second
    assert first != list(islice(drawn(list(KINDS), WRITES, 4), 200))


def test_every_kind_is_drawn_in_every_scenario_at_writes_that_there_are() -> None:
    plans = list(islice(drawn(list(KINDS), WRITES, 1), len(KINDS) * len(WRITES)))
    firsts = Counter((fault.kind, plan.scenario) for plan in plans for fault in plan.faults)
    assert set(firsts) == {(kind, scenario) for kind in KINDS for scenario in WRITES}
    moments = {(plan.scenario, fault.at) for plan in plans for fault in plan.faults}
    assert all(1 <= at <= WRITES[scenario] for scenario, at in moments)


def test_a_plan_is_read_as_it_was_written() -> None:
    assert str(TWO) == "loss:crash_after@7/1+node_deleted@9/2"
    assert Plan.read(str(TWO)) == TWO
    with pytest.raises(ValueError, match="no plan"):
        Plan.read("loss:crash_after")


def test_a_failing_plan_loses_faults_before_these_move() -> None:
    tries = [str(plan) for plan in simpler(TWO)]
    assert tries[:2] == ["loss:node_deleted@9/2", "loss:crash_after@7/1"]
    assert "loss:crash_after@1/1+node_deleted@9/2" in tries
    assert [str(plan) for plan in simpler(Plan("loss", (Fault("crash_after", 1, 0),)))] == []


def test_a_journal_goes_on_and_is_counted_by_kind(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    Journal(file).add(Verdict(TWO, 3.0, struck=2, writes=9))
    one = Plan("create", (Fault("crash_after", 1),))
    Journal(file).add(Verdict(one, 3.0, struck=0, writes=9, complaints={"same cost": ["off"]}))
    lines = Journal(file).lines()
    assert [Plan.read(line["plan"]) for line in lines] == [TWO, one]
    assert table(lines)["crash_after"]["create"] == {"plans": 1, "struck": 0, "failed": 1}
    sums = summary(lines)
    assert (sums["campaign_plans"], sums["campaign_struck"], sums["campaign_failed"]) == (2, 1, 1)


def test_ends_differ_exactly_or_by_their_shape() -> None:
    status = {"phase": "Succeeded", "settled": "0-2", "nextWorkerId": 3}
    world = {"number": 1, "members": [0, 1]}
    first = {"trainingjobs/job": {"status": {**status, "world": world, "cost": 1}}}
    later = {"trainingjobs/job": {"status": {**status, "world": {**world, "number": 4}}}}
    assert same_end(first, first, is_exact=True) == []
    assert same_end(first, later, is_exact=True) == [
        ".trainingjobs/job.status.world.number: 4 instead of 1"
    ]
    assert same_end(first, later, is_exact=False) == []
    failed = {"trainingjobs/job": {"status": {**status, "world": world, "phase": "Failed"}}}
    assert same_end(first, failed, is_exact=False) == [".phase: 'Failed' instead of 'Succeeded'"]
