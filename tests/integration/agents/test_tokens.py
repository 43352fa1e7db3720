"""Who is let in, judged by a real API server on real tokens."""

import asyncio
import time

from spotrun.agents.answers import Published
from spotrun.agents.long_poll import WorkerKey
from spotrun.agents.tokens import Tokens, review_by
from spotrun.kube.rest.access import Access, Credentials
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from tests.integration.agents.helpers import Caller, Pods, Replica, replica
from tests.support.jobs.published_jobs import job, world

PATIENCE_SECONDS = 60.0


async def publish(there: Replica, pods: Pods, *names: str) -> Published:
    peers = {worker_id: await pods.make(name) for worker_id, name in enumerate(names)}
    published = job(world(f"0-{len(names) - 1}"), namespace=pods.namespace, pods=peers)
    there.board.publish(published, version=1)
    return published


def key(pods: Pods, pod: str) -> WorkerKey:
    return WorkerKey(pods.namespace, "job", pod)


async def test_a_pod_is_told_its_world_and_heard(client: Client, pods: Pods) -> None:
    async with replica(Tokens(review_by(client))) as there, Caller(there) as caller:
        published = await publish(there, pods, "job-a-0", "job-a-1")
        token = await pods.token(published.peers[1])

        said = await caller.poll(key(pods, "job-a-1"), token)
        poll = asyncio.create_task(
            caller.poll(key(pods, "job-a-1"), token, said.content["version"])
        )
        answered = await caller.report(key(pods, "job-a-1"), token, {"wire": 1, "ready": True})
        there.board.publish(
            job(world("0-1", world_number=2), namespace=pods.namespace, pods=dict(published.peers)),
            version=2,
        )
        news = await poll

    assert said.status == answered.status == 200
    assert said.content["world"]["rank"] == 1
    assert answered.content["version"] == said.content["version"]
    assert news.world_number == 2
    [(uid, worker_id, report)] = there.heard.reports
    assert (uid, worker_id, report.ready) == (published.uid, 1, True)
    assert there.heard.woken == [(pods.namespace, "job")]
    assert set(there.heard.touched) == {1}


async def test_who_is_not_let_in(client: Client, pods: Pods) -> None:
    async with replica(Tokens(review_by(client))) as there, Caller(there) as caller:
        published = await publish(there, pods, "job-a-0", "job-a-1")
        mine, other = published.peers[0], published.peers[1]
        good = await pods.token(mine)
        head, payload, signature = good.split(".")
        forged = f"{head}.{payload}.{signature[:-8]}AAAAAAAA"
        shown = {
            "none": None,
            "empty": "",
            "garbage": "garbage",
            "forged": forged,
            "another pod's": await pods.token(other),
            "for the API server": await pods.token(mine, "https://kubernetes.default.svc"),
            "bound to no pod": await pods.token(None),
        }
        statuses = {
            name: (await caller.poll(key(pods, "job-a-0"), token)).status
            for name, token in shown.items()
        }
        unknown = await pods.make("stranger")
        stranger = await caller.poll(key(pods, "stranger"), await pods.token(unknown))
        elsewhere = await caller.poll(WorkerKey("other", "job", "job-a-0"), good)
        same = await caller.poll(key(pods, "job-a-0"), good)

    assert statuses == {
        "none": 401,
        "empty": 401,
        "garbage": 401,
        "forged": 401,
        "another pod's": 403,
        "for the API server": 401,
        "bound to no pod": 403,
    }
    assert (stranger.status, elsewhere.status, same.status) == (404, 403, 200)


async def test_the_token_of_an_earlier_pod_of_the_name(client: Client, pods: Pods) -> None:
    async with replica(Tokens(review_by(client))) as there, Caller(there) as caller:
        published = await publish(there, pods, "job-a-0")
        old = published.peers[0]
        known = await pods.token(old)
        assert (await caller.poll(key(pods, "job-a-0"), known)).status == 200

        await pods.delete(old)
        new = await pods.make("job-a-0")
        there.board.publish(job(world("0"), namespace=pods.namespace, pods={0: new}), version=2)

        said = await caller.poll(key(pods, "job-a-0"), known)
        fresh = await caller.poll(key(pods, "job-a-0"), await pods.token(new))

    assert (said.status, fresh.status) == (403, 200)


async def test_the_token_of_a_deleted_pod_is_no_longer_accepted(client: Client, pods: Pods) -> None:
    gone = await pods.make("job-a-0")
    token = await pods.token(gone)
    await pods.delete(gone)
    async with asyncio.timeout(PATIENCE_SECONDS):
        # The API server looks for the pod in a cache of its own, and believes an answer for 10 s.
        while (await review_by(client)(token)).authenticated:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    async with replica(Tokens(review_by(client))) as there, Caller(there) as caller:
        there.board.publish(job(world("0"), namespace=pods.namespace, pods={0: gone}), version=1)
        said = await caller.poll(key(pods, "job-a-0"), token)

    assert said.status == 401


async def test_an_expired_token(client: Client, pods: Pods) -> None:
    later = Tokens(review_by(client), wall=lambda: time.time() + 700)

    async with replica(later) as there, Caller(there) as caller:
        published = await publish(there, pods, "job-a-0")
        said = await caller.poll(key(pods, "job-a-0"), await pods.token(published.peers[0]))

    assert said.status == 401
    assert "expired" in said.content["message"]


async def test_an_api_server_that_is_away(pods: Pods) -> None:
    async def load() -> Access:
        return Access("http://127.0.0.1:9")  # the discard service, which nobody runs

    async with Transport(Credentials(load)) as transport:
        away = Client(transport, field_manager="test")
        async with replica(Tokens(review_by(away))) as there, Caller(there) as caller:
            published = await publish(there, pods, "job-a-0")
            said = await caller.poll(key(pods, "job-a-0"), await pods.token(published.peers[0]))

    assert said.status == 503
    assert int(said.headers["Retry-After"]) >= 1
