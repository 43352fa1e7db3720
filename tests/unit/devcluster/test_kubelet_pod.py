"""A pod's life on a node that needs no API server: everything it would write is kept."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from devcluster.kubelet.lifecycle import Timing
from devcluster.kubelet.pod import Order, PodWorker
from devcluster.kubelet.records import NODE_SHUTDOWN, REJECTED_IN_SHUTDOWN
from devcluster.kubelet.runtime import Exit, Manifest, Runtime, StartError
from devcluster.scripted import AT_ONCE, Context, Script, Scripted

NO_WAIT = Timing(restart_backoff=0.001, start_retry=0.001)


class Node:
    """A Host that writes to memory."""

    def __init__(self, script: Script, timing: Timing = NO_WAIT) -> None:
        self.runtime: Runtime = Scripted(script)
        self.timing = timing
        self.node: Manifest = {"metadata": {"name": "node"}}
        self.address = "127.20.0.1"
        self.written: list[Manifest] = []
        self.confirmed: list[str] = []
        self.news = asyncio.Event()
        self.open = asyncio.Event()  # cleared: the API server does not answer
        self.open.set()
        self.num_writing = 0
        self._version = 1

    async def write_status(self, pod: Manifest, status: Manifest) -> Manifest | None:
        self.num_writing += 1
        assert self.num_writing == 1, "two writes of one pod overtake each other"
        await asyncio.sleep(0)  # as the network does
        await self.open.wait()
        self.num_writing -= 1
        self.written.append(status)
        self.news.set()
        self._version += 1
        return {"metadata": {"resourceVersion": str(self._version)}}

    async def confirm_deletion(self, pod: Manifest) -> None:
        self.confirmed.append(pod["metadata"]["name"])
        self.news.set()

    @property
    def phases(self) -> list[str]:
        return [status["phase"] for status in self.written]


def pod(*containers: str, **spec: Any) -> Manifest:
    meta = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    wanted = {"containers": [{"name": c} for c in containers or ("main",)]}
    return {"metadata": meta, "spec": wanted | {"restartPolicy": "Never"} | spec}


def deleted(manifest: Manifest, grace_seconds: float) -> Manifest:
    marks = {
        "deletionTimestamp": "2026-01-02T03:04:05Z",
        "deletionGracePeriodSeconds": grace_seconds,
        "resourceVersion": "1000000",
    }
    return manifest | {"metadata": manifest["metadata"] | marks}


class Started:
    def __init__(self, node: Node, manifest: Manifest) -> None:
        self.worker = PodWorker(manifest, node)
        self.worker.start()

    async def __aenter__(self) -> PodWorker:
        return self.worker

    async def __aexit__(self, *_: object) -> None:
        await self.worker.abandon()


async def until(node: Node, holds: Callable[[], object]) -> None:
    async with asyncio.timeout(2):
        while not holds():
            node.news.clear()
            await node.news.wait()


def exit_of(status: Manifest, index: int = 0) -> Manifest:
    end: Manifest = status["containerStatuses"][index]["state"]["terminated"]
    return end


async def test_a_pod_that_ends_at_once_costs_one_write() -> None:
    node = Node(AT_ONCE)
    async with Started(node, pod()) as worker:
        await worker.reported_over()
    assert node.phases == ["Succeeded"]


async def test_a_pod_that_runs_for_a_while_costs_two() -> None:
    node = Node(Script(run_seconds=0.01))
    async with Started(node, pod()) as worker:
        await worker.reported_over()
    assert node.phases == ["Running", "Succeeded"]


async def test_a_pod_whose_start_takes_time_is_pending_meanwhile() -> None:
    node = Node(Script(start_seconds=0.01, run_seconds=0))
    async with Started(node, pod()) as worker:
        await worker.reported_over()
    assert node.phases == ["Pending", "Succeeded"]
    waiting = node.written[0]["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ContainerCreating"}


async def test_a_pod_is_over_when_the_last_of_its_containers_is() -> None:
    slow = Script(run_seconds=0.02, exit=Exit(2))
    node = Node(Script(run_seconds=0, containers={"slow": slow}))
    async with Started(node, pod("quick", "slow")) as worker:
        await worker.reported_over()
    assert node.phases[-2:] == ["Running", "Failed"]
    assert [exit_of(node.written[-1], i)["exitCode"] for i in (0, 1)] == [0, 2]


async def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    node = Node(Script(containers={"fetch": Script(run_seconds=0, exit=Exit(9))}))
    async with Started(node, pod(initContainers=[{"name": "fetch"}])) as worker:
        await worker.reported_over()
    assert node.phases == ["Failed"]
    main = node.written[-1]["containerStatuses"][0]["state"]
    assert main == {"waiting": {"reason": "PodInitializing"}}


async def test_containers_are_restarted_with_their_count() -> None:
    seen: list[int] = []

    async def play(context: Context) -> Exit:
        seen.append(context.restarts)
        return Exit(0 if context.restarts == 3 else 1)

    node = Node(Script(play=play))
    async with Started(node, pod(restartPolicy="OnFailure")) as worker:
        await worker.reported_over()
    assert seen == [0, 1, 2, 3]
    assert node.written[-1]["containerStatuses"][0]["restartCount"] == 3
    reasons = [
        s["containerStatuses"][0]["state"].get("waiting", {}).get("reason") for s in node.written
    ]
    assert "CrashLoopBackOff" in reasons


async def test_a_deletion_ends_containers_and_is_confirmed_after_the_last_status() -> None:
    node = Node(Script())
    manifest = pod()
    async with Started(node, manifest) as worker:
        await until(node, lambda: node.phases == ["Running"])
        worker.see(deleted(manifest, 30))
        await until(node, lambda: node.confirmed)
    assert node.phases == ["Running", "Failed"]
    assert exit_of(node.written[-1])["exitCode"] == 143


async def test_a_deletion_is_confirmed_only_when_the_last_status_is_written() -> None:
    node = Node(Script())
    manifest = pod()
    async with Started(node, manifest) as worker:
        await until(node, lambda: node.phases == ["Running"])
        node.open.clear()
        worker.see(deleted(manifest, 30))
        await worker.ended()
        assert not node.confirmed
        node.open.set()
        await until(node, lambda: node.confirmed)
    assert node.phases == ["Running", "Failed"]


async def test_changes_during_a_write_share_the_next_one() -> None:
    node = Node(Script(run_seconds=0, exit=Exit(1)))
    node.open.clear()
    async with Started(node, pod(restartPolicy="OnFailure")) as worker:
        await asyncio.sleep(0.02)  # several restarts long
        assert node.written == []
        node.open.set()
        await until(node, lambda: len(node.written) >= 2)
        worker.end(Order(0, NODE_SHUTDOWN))
        await worker.reported_over()
    restarts = [s["containerStatuses"][0]["restartCount"] for s in node.written]
    assert restarts[1] > restarts[0] + 1


async def test_what_ignores_sigterm_is_killed_when_the_grace_is_over() -> None:
    node = Node(Script(stop_exit=None))
    manifest = pod()
    async with Started(node, manifest) as worker:
        await until(node, lambda: node.phases == ["Running"])
        worker.see(deleted(manifest, 0.02))
        await until(node, lambda: node.confirmed)
    assert exit_of(node.written[-1])["exitCode"] == 137


async def test_a_second_deletion_can_shorten_the_grace_but_not_lengthen_it() -> None:
    node = Node(Script(stop_exit=None))
    manifest = pod()
    async with Started(node, manifest) as worker:
        await until(node, lambda: node.phases == ["Running"])
        worker.see(deleted(manifest, 600))
        worker.see(deleted(manifest, 0.01))
        worker.see(deleted(manifest, 600))
        await until(node, lambda: node.confirmed)


async def test_what_not_even_sigkill_ends_is_never_confirmed() -> None:
    node = Node(Script(stop_exit=None, ends_on_kill=False))
    manifest = pod()
    async with Started(node, manifest) as worker:
        await until(node, lambda: node.phases == ["Running"])
        worker.see(deleted(manifest, 0))
        await asyncio.sleep(0.02)  # nothing is to happen: there is nothing to wait for
        assert node.phases == ["Running"]
        assert not node.confirmed


@pytest.mark.parametrize(
    "script",
    [
        Script(start_seconds=600),
        Script(start_error=StartError("ErrImagePull", "no such image")),
    ],
)
async def test_a_deletion_breaks_off_a_start(script: Script) -> None:
    node = Node(script, Timing())
    manifest = pod()
    async with Started(node, manifest) as worker:
        await until(node, lambda: node.phases == ["Pending"])
        worker.see(deleted(manifest, 600))
        await until(node, lambda: node.confirmed)
    assert exit_of(node.written[-1])["reason"] == "ContainerStatusUnknown"


async def test_a_deletion_breaks_off_a_back_off() -> None:
    node = Node(Script(run_seconds=0, exit=Exit(5)), Timing())
    manifest = pod(restartPolicy="Always")
    async with Started(node, manifest) as worker:
        await until(node, lambda: node.written and "waiting" in str(node.written[-1]))
        worker.see(deleted(manifest, 600))
        await until(node, lambda: node.confirmed)
    assert exit_of(node.written[-1])["exitCode"] == 5


async def test_a_pod_that_is_over_waits_for_its_deletion() -> None:
    node = Node(AT_ONCE)
    manifest = pod()
    async with Started(node, manifest) as worker:
        await worker.reported_over()
        assert not node.confirmed
        worker.see(deleted(manifest, 30))
        await until(node, lambda: node.confirmed)
    assert node.phases == ["Succeeded"]


async def test_a_shutdown_gives_its_verdict_even_where_containers_end_well() -> None:
    node = Node(Script(stop_exit=Exit(0, message="saved")))
    async with Started(node, pod()) as worker:
        await until(node, lambda: node.phases == ["Running"])
        worker.end(Order(30, NODE_SHUTDOWN))
        await worker.reported_over()
    assert node.phases == ["Running", "Failed"]
    assert node.written[-1]["reason"] == "Terminated"
    assert exit_of(node.written[-1])["message"] == "saved"


async def test_a_pod_that_comes_during_a_shutdown_is_refused() -> None:
    node = Node(Script())
    worker = PodWorker(pod(), node)
    worker.reject(REJECTED_IN_SHUTDOWN)
    await until(node, lambda: node.written)
    await worker.abandon()
    assert (node.phases, node.written[0]["reason"]) == (["Failed"], "NodeShutdown")


async def test_the_log_stands_in_for_a_missing_termination_message() -> None:
    container = {"name": "main", "terminationMessagePolicy": "FallbackToLogsOnError"}
    node = Node(Script(run_seconds=0, exit=Exit(1), output="first\nlast words"))
    async with Started(node, pod(containers=[container])) as worker:
        await worker.reported_over()
    assert exit_of(node.written[-1])["message"] == "first\nlast words\n"


async def test_abandoning_a_pod_writes_nothing_and_gives_its_place_back() -> None:
    removed = asyncio.Event()

    async def play(context: Context) -> Exit:
        try:
            await asyncio.Event().wait()
        finally:
            removed.set()
        return Exit(0)

    node = Node(Script(play=play))
    async with Started(node, pod()) as worker:
        await until(node, lambda: node.phases == ["Running"])
        await worker.abandon()
    assert removed.is_set()
    assert node.phases == ["Running"]


async def lines(chunks: AsyncIterator[bytes]) -> list[bytes]:
    return [chunk async for chunk in chunks]


async def test_logs_can_be_followed_to_the_end_and_cut_to_the_newest() -> None:
    go = asyncio.Event()

    async def play(context: Context) -> Exit:
        context.log("one\ntwo")
        await go.wait()
        context.log("three")
        return Exit(0)

    node = Node(Script(play=play))
    async with Started(node, pod()) as worker:
        await until(node, lambda: node.phases == ["Running"])
        assert worker.sandbox is not None
        following = asyncio.create_task(lines(worker.sandbox.logs("main", follow=True, tail=1)))
        await asyncio.sleep(0)
        go.set()
        assert await following == [b"two\n", b"three\n"]
        assert await lines(worker.sandbox.logs("main", follow=False, tail=None)) == [
            b"one\n",
            b"two\n",
            b"three\n",
        ]


async def test_a_played_container_that_raises_fails_with_its_error() -> None:
    async def play(context: Context) -> Exit:
        raise ValueError("no such rank")

    node = Node(Script(play=play))
    async with Started(node, pod()) as worker:
        await worker.reported_over()
    end = exit_of(node.written[-1])
    assert (end["exitCode"], end["message"]) == (1, "ValueError: no such rank")
