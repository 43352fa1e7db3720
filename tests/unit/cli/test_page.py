"""What the page shows: rows, their differences, lives of workers, and what is not known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from spotrun.api.spec.placement import Placement
from spotrun.cli.jobs.model import ObjectMeta, PlacementSpec
from spotrun.cli.jobs.pool_model import Pool, PoolSpec
from spotrun.cli.jobs.workers import Place
from spotrun.cli.page.following import Version
from spotrun.cli.page.news import AGES_SECONDS, JobNews
from spotrun.cli.page.views.fleet import Fleet, difference, job_row, pool_row, taken_of
from spotrun.cli.page.views.history import MOST, Sample, sample_of, stalls_of, with_sample
from spotrun.cli.page.views.job import Seen, job_view
from spotrun.cli.page.views.limits import Limit, LimitRow, limit_row
from spotrun.cli.page.views.timeline import Life, Mark, ended, joined, life_of, lives_told
from spotrun.kube.resource import Meta
from spotrun.observe.kube_objects import EventObject, Regarding
from spotrun.state.names import worker_name
from tests.support.processes.typescript import TSC, type_errors
from tests.support.screens.shown_jobs import (
    WAITING,
    shown_events,
    shown_job,
    shown_pods,
    shown_pools,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
T = NOW.timestamp()
EVENTS = shown_events(
    ("2026-03-01T11:10:00Z", "Training", "world 6: 8 workers, entered by Boundary"),
    ("2026-03-01T11:19:00Z", "Reclaimed", "worker 5 on node ip-10-0-3-7 was taken away"),
    ("2026-03-01T11:20:10Z", "Training", "world 7: 6 workers, entered by Abort"),
)
ASSETS = Path(__file__).parents[3] / "operator/spotrun/cli/page/assets"


def sample(at: float, usd: float = 1.0, **more: int) -> Sample:
    return Sample(at, usd, 2.0, more.get("running", 1), more.get("step"), more.get("checkpoint"))


def test_a_job_is_a_row_of_plain_numbers() -> None:
    row = job_row(shown_job())
    assert (row.key, row.phase, row.workers, row.spot) == ("ml/gpt", "Running", "6/8", 5)
    assert (row.usd, row.usd_per_hour, row.budget_usd, row.losses) == (38.12, 14.4, 80.0, 2)
    assert (row.eta, row.why, row.team) == (T + 79 * 60, "", "vision")


def test_a_job_that_waits_says_why_and_one_that_nobody_has_seen_too() -> None:
    waiting = job_row(shown_job(status=WAITING))
    assert waiting.why.startswith("WaitingForCapacity: 0 of 2 workers have a node")
    unseen = job_row(shown_job(status={"phase": "", "message": "", "reason": ""}))
    assert (unseen.phase, unseen.why) == (
        "NotSeen",
        "NotSeen: no operator has looked at this job yet",
    )


def test_a_job_that_another_controller_runs_says_so_until_that_says_more() -> None:
    nothing = {"phase": "", "message": "", "reason": ""}
    elsewhere = shown_job(status=nothing, spec={"managedBy": "kueue.x-k8s.io/multikueue"})
    said = "the job is managed by kueue.x-k8s.io/multikueue, which has not reported its state yet"
    assert job_row(elsewhere).why == f"HandedOver: {said}"


def test_a_pool_is_a_row_and_a_price_that_is_not_known_is_none() -> None:
    spot, on_demand = map(pool_row, shown_pools())
    assert (spot.usd_per_hour, spot.losses_a_day, spot.zones) == (1.92, 3, "us-east-1a")
    assert (on_demand.usd_per_hour, on_demand.types) == (None, "any")


def test_a_spend_limit_is_a_row_and_only_a_new_one_is_sent() -> None:
    given = {
        "metadata": {"name": "vision", "namespace": "ml"},
        "spec": {"limitUsd": "500"},
        "status": {"spentUsd": "212.5", "forecastUsd": "610", "jobs": {"running": 3, "held": 1}},
    }
    row = limit_row(msgspec.convert(given, Limit))
    assert row == LimitRow("ml/vision", "Month", "Hold", 500, 212.5, None, 610, 3, 1, 0, "")
    before, now = Fleet(), Fleet(limits={row.key: row})
    assert difference(before, now) == {"limits": [row]}
    assert difference(now, now) == {}
    assert difference(now, before) == {"limitsGone": ["ml/vision"]}


@pytest.mark.parametrize(
    ("lifetimes", "expected"),
    [
        ("", ""),
        ("0m 3/12, 15m 1/9", "4 of 12"),
        ("0m 0/3", "0 of 3"),
        ("0m 0.5/2.5", "0.5 of 2.5"),
        ("nonsense", ""),
    ],
)
def test_a_hazard_is_how_many_nodes_were_taken_of_how_many(lifetimes: str, expected: str) -> None:
    assert taken_of(lifetimes) == expected


def test_only_what_has_changed_is_sent() -> None:
    one, two = job_row(shown_job("a")), job_row(shown_job("b"))
    dearer = msgspec.structs.replace(one, usd=40.0)
    before = Fleet({"ml/a": one, "ml/b": two})
    assert difference(Fleet(), before) == {"jobs": [one, two]}
    assert difference(before, before) == {}
    after = Fleet({"ml/a": dearer}, notes=("n",))
    assert difference(before, after) == {"jobs": [dearer], "jobsGone": ["ml/b"], "notes": ("n",)}


def test_a_course_has_no_repetition_and_stays_small() -> None:
    course = with_sample((), sample(0))
    assert with_sample(course, sample(9)) == course
    for number in range(5_000):
        course = with_sample(course, sample(number, number + 2.0))
    assert MOST // 2 <= len(course) <= MOST
    assert [one.at for one in course] == sorted(one.at for one in course)
    assert (course[0].at, course[-1].at) == (0, 4_999)


def test_a_sample_has_the_amounts_of_a_status() -> None:
    found = sample_of(shown_job(), NOW)
    assert found == Sample(T, 38.12, 14.4, 0, 41_200, 41_000)


@pytest.mark.parametrize(("value", "expected"), [("0.25", 0.25), ("NaN", None), ("Infinity", None)])
def test_a_sample_has_the_loss_that_the_script_logs(value: str, expected: float | None) -> None:
    metrics = {"lr": {"value": "3", "step": 7}, "train_loss": {"value": value, "step": 7}}
    assert sample_of(shown_job(status={"metrics": metrics}), NOW).loss == expected
    assert sample_of(shown_job(), NOW).loss is None


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        pytest.param([(0, 5, 2), (90, 5, 2), (95, 6, 2)], [(0, 90)], id="the same step"),
        pytest.param([(0, 5, 2), (59, 5, 2)], [], id="not for long"),
        pytest.param([(0, 5, 2), (300, 80, 2)], [], id="nobody knows what was between"),
        pytest.param([(0, 5, 0), (300, 5, 0)], [], id="no worker"),
        pytest.param([(0, 5, 2), (50, 5, 2), (99, 5, 2)], [(0, 99)], id="several samples"),
    ],
)
def test_a_stall_is_no_new_step_while_workers_run(
    course: list[tuple[float, int, int]], expected: list[tuple[float, float]]
) -> None:
    samples = [sample(at, at + 1, step=step, running=running) for at, step, running in course]
    assert [(one.begin, one.end) for one in stalls_of(samples, None)] == expected
    assert stalls_of(samples, 30.0) == ()  # five steps take longer


def test_a_job_that_names_no_capacity_may_have_each_as_in_the_api() -> None:
    assert PlacementSpec().capacity == Placement().capacity


class Followed:
    """A job whose views are counted."""

    def __init__(self) -> None:
        self.version: Version = (1, 1, 1, ("a note",))
        self.views = 0

    def view(self) -> object:
        self.views += 1
        return {"views": self.views}


def test_a_view_is_made_when_its_job_has_changed_and_else_for_its_ages_alone() -> None:
    followed, moment = Followed(), [T]
    news = JobNews(followed, lambda: moment[0])
    first = news.message()
    assert first == b'{"now":%f,"job":{"views":1},"notes":["a note"]}' % T
    assert [news.message(), news.message(), followed.views] == [None, None, 1]
    followed.version = (2, 1, 1, ())
    assert b'"views":2' in (news.message() or b"")
    moment[0] += AGES_SECONDS
    assert b'"views":3' in (news.message() or b"")


def test_a_worker_whose_pod_goes_ends_then() -> None:
    [pod] = shown_pods(3)
    life = life_of(pod, Place("us-east-1a", "g5.xlarge"))
    assert (life.worker, life.zone, life.capacity, life.end) == (3, "us-east-1a", "Spot", None)
    assert (life.state, life.begin) == ("Leaving", T - 3 * 3600)
    gone = ended(life, NOW)
    assert (gone.end, gone.is_over, gone.state) == (T, True, "Gone")


def assigned(pod: str, node: str, at: str = "2026-03-01T10:00:00Z") -> EventObject:
    return EventObject(
        metadata=Meta(name="e"),
        regarding=Regarding("Pod", pod),
        reason="Scheduled",
        note=f"Successfully assigned ml/{pod} to {node}",
        event_time=at,
    )


def test_the_scheduler_tells_of_workers_that_are_gone_and_of_this_job_only() -> None:
    name = worker_name("gpt", "uid-gpt", 5)
    told = lives_told(
        shown_job(), [assigned(name, "ip-7"), assigned("gpt-other-5", "x"), assigned("gpt", "y")]
    )
    assert told == {name: Life(5, name, "ip-7", state="Gone", begin=T - 7200, is_over=True)}


LOSS = Mark(T - 60, "loss", "Reclaimed", "worker 5 on node ip-7 was taken away", worker=5)
JOINED: dict[str, tuple[dict[str, Life], dict[str, Life], list[Life]]] = {
    "a loss ends what the scheduler told of": (
        {"p": Life(5, "p", "ip-7", begin=T - 100, is_over=True)},
        {},
        [Life(5, "p", "ip-7", "", "Spot", "", T - 100, T - 60, True, True)],
    ),
    "a loss of a worker that nothing else tells of has no begin": (
        {},
        {},
        [Life(5, "", "ip-7", "", "Spot", "Gone", None, T - 60, True, True)],
    ),
    "what was seen counts before what was told": (
        {"p": Life(5, "p", "ip-7", begin=T - 100, is_over=True)},
        {"p": Life(5, "p", "ip-7", "z", "OnDemand", "Gone", T - 99, T - 61, True)},
        [Life(5, "p", "ip-7", "z", "OnDemand", "Gone", T - 99, T - 61, True, True)],
    ),
    "a pod that is removed a minute later ends with its node": (
        {},
        {"p": Life(5, "p", "ip-7", "z", "Spot", "Gone", T - 99, T - 1, True)},
        [Life(5, "p", "ip-7", "z", "Spot", "Gone", T - 99, T - 60, True, True)],
    ),
    "a worker that has come after the loss is not lost": (
        {},
        {"q": Life(5, "q", "ip-8", "z", "Spot", "Running", T - 10)},
        [Life(5, "q", "ip-8", "z", "Spot", "Running", T - 10)],
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_lives_are_put_together_from_all_that_is_known(name: str) -> None:
    told, seen, expected = JOINED[name]
    assert list(joined(shown_job(), shown_pools(), told, seen, [LOSS])) == expected


def test_several_workers_that_are_lost_with_a_node_are_all_shown_as_lost() -> None:
    text = "worker 5 on node ip-7 was taken away, and 1 more"
    both = Mark(T - 60, "loss", "NodeLost", text, worker=5)
    told = {
        "p": Life(5, "p", "ip-7", begin=T - 100, is_over=True),
        "q": Life(6, "q", "ip-7", begin=T - 90, is_over=True),
        "r": Life(7, "r", "ip-7", begin=T - 10, is_over=True),  # a later node of that name
        "s": Life(8, "s", "ip-8", begin=T - 90, is_over=True),
    }
    found = joined(shown_job(), shown_pools(), told, {}, [both])
    assert [(one.worker, one.is_lost, one.end) for one in found] == [
        (5, True, T - 60),
        (6, True, T - 60),
        (7, False, None),
        (8, False, None),
    ]


def test_workers_lost_with_a_node_are_crossed_while_their_pods_are_still_there() -> None:
    text = "worker 5 on node ip-7 was taken away, and 2 more"
    lost = Mark(T - 60, "loss", "NodeLost", text, worker=5)
    seen = {
        "p": Life(5, "p", "ip-7", state="Leaving", begin=T - 100),
        "q": Life(6, "q", "ip-7", state="Leaving", begin=T - 90),
        "r": Life(7, "r", "ip-7", state="Gone", begin=T - 90, end=T - 2, is_over=True),
        "s": Life(8, "s", "ip-7", state="Running", begin=T - 90),  # stays
        "t": Life(9, "t", "ip-7", state="Gone", begin=T - 990, end=T - 900, is_over=True),
        "u": Life(10, "u", "ip-7", state="Gone", begin=T - 90, end=T - 5, is_over=True),
    }
    found = joined(shown_job(), shown_pools(), {}, seen, [lost])
    assert [one.worker for one in found if one.is_lost] == [5, 6, 10]
    assert {one.end for one in found if one.is_lost} == {T - 60}


def test_the_last_loss_is_shown_though_its_event_was_lost() -> None:
    seen = replace(seen_job(), events=EVENTS[:1])
    [loss] = [one for one in job_view(seen, NOW).timeline.marks if one.kind == "loss"]
    assert loss.text == "worker 5 on node ip-10-0-3-7 was taken away"
    assert loss.at == datetime(2026, 3, 1, 11, 19, tzinfo=UTC).timestamp()


def test_the_capacity_of_a_lost_worker_is_that_of_its_pool_or_not_known() -> None:
    job = msgspec.structs.replace(shown_job())
    pool = Pool(ObjectMeta(name="spot-a10g"), PoolSpec(capacity="OnDemand"))
    bare = msgspec.structs.replace(
        job,
        status=msgspec.structs.replace(job.status, accumulators=type(job.status.accumulators)()),
    )
    [by_pool] = joined(bare, [pool], {}, {}, [LOSS])
    [unknown] = joined(bare, [], {}, {}, [LOSS])
    assert (by_pool.capacity, unknown.capacity) == ("OnDemand", "")
    both = {"q": Life(6, "q", "ip-10-0-3-7", begin=T - 90, is_over=True)}  # on the same node
    assert [one.capacity for one in joined(bare, [pool], both, {}, [LOSS])] == ["OnDemand"] * 2


def seen_job() -> Seen:
    return Seen(
        job=shown_job(),
        pods=shown_pods(0, 1, 9),
        pools=shown_pools(),
        events=EVENTS,
        samples=(sample(T - 60, checkpoint=40_000), sample(T - 30, 1.5, checkpoint=40_500)),
    )


def test_a_job_is_shown_with_its_losses_worlds_checkpoints_and_decisions_in_order() -> None:
    view = job_view(seen_job(), NOW)
    assert [(one.kind, one.what) for one in view.timeline.marks] == [
        ("decision", "Grow"),
        ("world", "World"),
        ("loss", "Reclaimed"),
        ("decision", "Placed"),
        ("world", "World"),
        ("checkpoint", "Checkpoint"),  # as the status tells its time
        ("checkpoint", "Checkpoint"),  # as it was seen to come
    ]
    assert [one.size for one in view.timeline.marks if one.kind == "world"] == [8, 6]
    assert view.bill[0] == ("all workers, while they had their nodes", 38.12)
    assert [one["rank"] for one in view.workers] == [0, 1, 5]
    assert view.answers[0]["question"] == "Why is it Running?"


def test_the_newest_step_of_the_local_tier_is_shown_with_its_age() -> None:
    kept = {"localCheckpoint": {"step": 41_190, "time": "2026-03-01T11:59:58Z"}}
    figures = job_view(Seen(job=shown_job(status=kept)), NOW).figures
    assert (figures["localStep"], figures["localAt"]) == (41_190, T - 2)
    without = job_view(seen_job(), NOW).figures
    assert (without["localStep"], without["localAt"]) == (None, None)


def test_what_is_not_known_is_said_and_not_drawn() -> None:
    view = job_view(seen_job(), NOW)
    assert any(note.startswith("Dollars and $/h are drawn from") for note in view.notes)
    assert any(note.startswith("A bar with an open end") for note in view.notes)  # of worker 5
    hidden = job_view(
        replace(seen_job(), hidden=["Your rights do not let you list pods here."]), NOW
    )
    assert hidden.notes[0] == "Your rights do not let you list pods here."


def test_a_timeline_begins_with_the_first_thing_that_is_known_and_not_before_the_job() -> None:
    view = job_view(seen_job(), NOW)
    assert view.timeline.begin == (NOW - timedelta(hours=1, seconds=30)).timestamp()
    assert view.timeline.end is None
    nothing: dict[str, Any] = {"decisions": [], "checkpoint": None, "interruptions": {}}
    empty = job_view(Seen(shown_job(status=nothing)), NOW)
    assert empty.timeline.begin == datetime(2026, 3, 1, 8, 48, tzinfo=UTC).timestamp()


@pytest.mark.skipif(TSC is None, reason="no TypeScript compiler (tsc) on this machine")
def test_the_scripts_have_the_types_that_they_say() -> None:
    assert type_errors(ASSETS / "jsconfig.json") == ""
