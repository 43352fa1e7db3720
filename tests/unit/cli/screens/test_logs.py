"""Logs of several workers: one order, ranks, and marks where the world changed."""

from typing import Any, cast

import pytest

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.jobs.logs.command import select
from spotrun.cli.jobs.logs.lines import drawn, merged
from spotrun.cli.jobs.logs.reading import log_of
from spotrun.kube.errors import Retryable
from tests.support.screens.shown_jobs import shown_events, shown_job, shown_pods

LOGS = {
    "0": [
        "2026-03-01T08:00:01.5Z step 1",
        "2026-03-01T08:00:09.000000001Z step 2",
        "a line without a time",
    ],
    "1": ["2026-03-01T10:00:01.25+02:00 step 1", "2026-03-01T08:00:09Z step 2"],
}
EVENTS = shown_events(
    ("2026-03-01T08:00:05.000000Z", "Training", "world 2: 2 workers, entered by Abort"),
    ("2026-03-01T08:00:04.000000Z", "Reclaimed", "worker 3 was taken away"),
    ("2026-03-01T08:00:03.000000Z", "Placed", "2 workers are asked from spot"),
)


def test_lines_are_in_the_order_of_their_times_whatever_their_zone() -> None:
    assert [drawn(line, has_times=False, width=1) for line in merged(LOGS, EVENTS)] == [
        "1 step 1",
        "0 step 1",
        "----- 08:00:04 worker 3 was taken away -----",
        "----- 08:00:05 world 2: 2 workers, entered by Abort -----",
        "1 step 2",
        "0 step 2",
        "0 a line without a time",
    ]


def test_times_are_shown_when_asked_for() -> None:
    first = next(iter(merged({"0": LOGS["0"]}, ())))
    assert drawn(first, has_times=True, width=0) == "2026-03-01T08:00:01.500Z step 1"


@pytest.mark.parametrize(
    ("rank", "is_all", "pods"),
    [
        (None, False, {"0": "gpt-abcde-0"}),
        (5, False, {"5": "gpt-abcde-9"}),
        (6, False, {}),
        (None, True, {"0": "gpt-abcde-0", "5": "gpt-abcde-9", "w12": "gpt-abcde-12"}),
    ],
    ids=["rank 0", "a rank", "a rank that is not there", "all, strangers to the world last"],
)
def test_workers_are_chosen_by_rank(rank: int | None, is_all: bool, pods: dict[str, str]) -> None:
    found = select(shown_job(), shown_pods(12, 9, 0), rank, is_all=is_all)
    assert {name: pod.metadata.name for name, pod in found.items()} == pods


def test_without_a_world_the_first_worker_is_read() -> None:
    found = select(shown_job(status={"world": None}), shown_pods(4, 3), None, is_all=False)
    assert list(found) == ["w3"]


async def test_a_worker_whose_node_has_gone_hides_no_other_log() -> None:
    class Gone:
        async def request(self, *_: Any, **__: Any) -> bytes:
            raise Retryable("dial tcp 10.0.0.7:10250: i/o timeout", status=500)

    cluster = Cluster(cast("Any", None), cast("Any", Gone()), "ml", "here")
    [pod] = shown_pods(1)
    assert await log_of(cluster, pod, None) == ["(dial tcp 10.0.0.7:10250: i/o timeout)"]
