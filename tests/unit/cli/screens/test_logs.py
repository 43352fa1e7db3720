"""Logs of several workers: one order, ranks, and marks where the world changed."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.jobs.logs import reading
from spotrun.cli.jobs.logs.following import select
from spotrun.cli.jobs.logs.lines import drawn, merged
from spotrun.cli.jobs.logs.reading import follow, log_of
from spotrun.kube.errors import Invalid, Retryable
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


class Cut:
    """A log that is read over connections: each gives some lines, all but the last are cut."""

    def __init__(self, *connections: list[bytes] | Exception) -> None:
        self.connections = list(connections)
        self.asked: list[dict[str, str]] = []

    async def stream(
        self, _: str, *, params: dict[str, str], **__: Any
    ) -> AsyncGenerator[list[bytes], None]:
        self.asked.append(dict(params))
        given = self.connections.pop(0)
        if isinstance(given, Exception):
            raise given
        yield given
        if self.connections:
            raise Retryable("the connection was lost")


async def followed(log: Cut, monkeypatch: pytest.MonkeyPatch, tail: int | None) -> list[str]:
    monkeypatch.setattr(reading, "_PAUSE_SECONDS", 0)
    cluster = Cluster(cast("Any", None), cast("Any", log), "ml", "here")
    [pod] = shown_pods(1)
    return [line async for line in follow(cluster, pod, tail)]


async def test_a_cut_connection_loses_no_line_and_repeats_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two, same, three = (
        b"2026-03-01T08:00:01.1Z one",
        b"2026-03-01T08:00:01.5Z two",
        b"2026-03-01T08:00:01.5Z two again",
        b"2026-03-01T08:00:02Z three",
    )
    log = Cut([], [one, two], [one, two], [one, two, same, three])
    assert await followed(log, monkeypatch, 5) == ["one", "two", "two again", "three"]
    assert [(ask.get("tailLines"), ask.get("sinceTime")) for ask in log.asked] == [
        ("5", None),
        ("5", None),
        (None, "2026-03-01T08:00:01Z"),
        (None, "2026-03-01T08:00:01Z"),
    ]


async def test_a_kubelet_without_times_is_followed_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Cut(Invalid("timestamps are not known"), [b"2026-03-01T08:00:01Z one"], [b"two"])
    assert await followed(log, monkeypatch, None) == ["2026-03-01T08:00:01Z one", "two"]
    assert [ask.get("tailLines") for ask in log.asked] == [None, None, "0"]
