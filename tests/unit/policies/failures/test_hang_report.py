import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.shares import Resources
from spotrun.policies.failures.hang_report import CLEARLY_SECONDS
from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job
from tests.support.jobs.hung_worlds import standing

RANK_0, RANK_1, RANK_2 = (f"rank {n} (job-{n} on node node-{n})" for n in range(3))


STOOD = "no step was finished for"


def message(job: JobBuilder) -> str:
    restarts = job.decide().status.restarts
    assert not restarts.blamed, "whoever stopped first"
    return restarts.last_message or ""


def at_steps(*reported: tuple[int, float], step_seconds: float = 1.0) -> JobBuilder:
    """A world in which each worker has told of a step, so many seconds ago."""
    job = a_job(len(reported)).training(*range(len(reported)))
    for worker_id, (step, seconds) in enumerate(reported):
        progress = Progress(1, step, step_seconds=step_seconds)
        changes = {"progress": progress, "progress_for": seconds}
        job = job.with_worker(worker_id, ready=True, arrived=1, **changes)
    return job


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(standing(640.4), f"{STOOD} 10m40s at step 100", id="one alone"),
        pytest.param(
            standing(640.0, 649.9, 642.0),
            f"{STOOD} 10m40s at step 100: all stopped together",
            id="together, as far as reports can tell",
        ),
        pytest.param(
            standing(640.0, 700.0, 642.0),
            f"{STOOD} 10m40s at step 100: {RANK_1} stopped 58s before the others",
            id="one before the others",
        ),
        pytest.param(
            standing(610.0, 700.0, 702.0),
            f"{STOOD} 10m10s at step 100: {RANK_0} continued 1m30s longer than the others",
            id="one longer than the others",
        ),
        pytest.param(
            standing(700.0, 610.0, 690.0, 611.0),
            f"{STOOD} 10m10s at step 100: {RANK_0}, {RANK_2} stopped 1m19s before the others",
            id="two before the others",
        ),
        pytest.param(
            at_steps((40, 700.0), (41, 640.0), (41, 641.0)),
            f"{STOOD} 10m40s at step 41: {RANK_0} stopped at step 40, 59s before the others",
            id="one at an earlier step",
        ),
        pytest.param(
            at_steps((41, 640.0), (40, 642.0), (41, 641.0)),
            f"{STOOD} 10m40s at step 41: {RANK_1} stopped at step 40, the others at 41",
            id="one at an earlier step, of which it told no earlier",
        ),
        pytest.param(
            at_steps((41, 640.0), (37, 642.0), (41, 641.0), step_seconds=0.1),
            f"{STOOD} 10m40s at step 41: all stopped together",
            id="short steps are not all told",
        ),
        pytest.param(
            at_steps((40, 700.0), (43, 610.0), (40, 701.0)),
            f"{STOOD} 10m10s at step 43: "
            f"{RANK_1} continued to step 43, 1m30s longer than the others",
            id="one told of more steps",
        ),
        pytest.param(
            standing(640.0, 700.0).with_facts(leading_seconds=750.0),
            f"{STOOD} 10m40s at step 100",
            id="who has come over to a new leader since then says nothing of when it stopped",
        ),
        pytest.param(
            at_steps((41, 640.0), (40, 640.0)).with_facts(leading_seconds=690.0),
            f"{STOOD} 10m40s at step 41: {RANK_1} stopped at step 40, the others at 41",
            id="but at which step",
        ),
        pytest.param(
            standing(640.0, 640.0, 900.0).with_worker(2, ready=True, arrived=1,
                progress=Progress(0, 7), progress_for=900.0),
            f"{STOOD} 10m40s at step 100",
            id="who tells of no step in this world is compared with nobody",
        ),
        pytest.param(
            standing(640.0, 700.0).with_facts(requests=Resources(gpus=2)),
            f"{STOOD} 10m40s at step 100: ranks 2-3 (job-1 on node node-1) stopped 1m before the "
            "others",
            id="a worker's processes speak with one voice",
        ),
    ],
)  # fmt: skip
def test_it_is_said_for_how_long_and_who_stopped_first(job: JobBuilder, expected: str) -> None:
    assert message(job) == expected


def test_of_many_the_first_are_named() -> None:
    named = f"{RANK_0}, {RANK_1}, {RANK_2} and 2 more stopped 1m30s before the others"
    assert message(standing(*[700.0] * 5, *[610.0] * 6)).endswith(f": {named}")


@given(st.lists(st.floats(600, 5_000), min_size=2, max_size=6))
def test_whoever_is_named_stopped_at_another_time_than_all_who_are_not(stands: list[float]) -> None:
    said = message(standing(*stands).with_facts(leading_seconds=10_000.0))
    named = [f"rank {n} " in said for n in range(len(stands))]
    assert any(named) is ("all stopped together" not in said)
    inside = [one for one, is_named in zip(stands, named, strict=True) if is_named]
    outside = [one for one, is_named in zip(stands, named, strict=True) if not is_named]
    assert outside, "somebody is compared with"
    if "before the others" in said:
        assert min(inside) - max(outside) >= CLEARLY_SECONDS
    if "longer than the others" in said:
        assert min(outside) - max(inside) >= CLEARLY_SECONDS
