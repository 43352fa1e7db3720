"""Tokens that are good, but not for this; judged by a real API server.

The plain cases stand in tests/integration/serve: none, garbage, for another audience, bound to no
pod, of an earlier pod of the name.
"""

import base64
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from spotrun.agents.answers import Peer
from spotrun.agents.long_poll import WorkerKey
from spotrun.agents.tokens import TOKEN_BYTES, Limits, Tokens, review_by
from spotrun.http.rate_limit import Rate
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from tests.integration.agents.helpers import Caller, Pods, Replica, path, replica
from tests.integration.attacks.helpers import Tenant
from tests.support.jobs.published_jobs import job, world

MINE, OTHER = "job-abcde-0", "job-abcde-1"


@dataclass
class Stage:
    """A job of two workers, and a second job; the first one's first worker is the attacker."""

    there: Replica
    caller: Caller
    pods: Pods
    mine: Peer
    token: str

    def worker(self, pod: str = MINE, of: str = "job", namespace: str | None = None) -> WorkerKey:
        return WorkerKey(namespace or self.pods.namespace, of, pod)

    async def status(self, token: str, worker: WorkerKey | None = None) -> tuple[int, str]:
        said = await self.caller.poll(worker or self.worker(), token)
        return said.status, said.content.get("message", "")


@pytest.fixture
async def stage(direct: Client, pods: Pods) -> AsyncIterator[Stage]:
    limits = Limits(refusals=Rate(per_second=0.001, burst=3))
    async with (
        replica(Tokens(review_by(direct), limits=limits)) as there,
        Caller(there) as caller,
    ):
        mine, other, second = [await pods.make(name) for name in (MINE, OTHER, "second-abcde-0")]
        first = job(world("0-1"), namespace=pods.namespace, pods={0: mine, 1: other})
        there.board.publish(first, version=1)
        another = job(
            world("0"), name="second", namespace=pods.namespace, pods={0: second}, uid="second"
        )
        there.board.publish(another, version=1)
        token = await pods.token(mine)
        stage = Stage(there, caller, pods, mine, token)
        assert (await stage.status(token))[0] == 200
        there.heard.touched.clear()
        yield stage
        assert there.heard.reports == []


async def test_a_worker_reports_in_the_name_of_its_neighbour(stage: Stage) -> None:
    """refused: a token is valid only for the pod for which it was made"""
    said = await stage.caller.report(stage.worker(OTHER), stage.token, {"wire": 1, "ready": True})
    assert said.status == 403
    assert f"does not belong to the pod {stage.pods.namespace}/{OTHER}" in said.content["message"]


async def test_a_worker_asks_for_the_world_of_another_job(stage: Stage) -> None:
    """refused: only members of a world get its secret"""
    status, message = await stage.status(stage.token, stage.worker("second-abcde-0", of="second"))
    assert (status, "does not belong" in message) == (403, True)


async def test_a_worker_enters_another_job_under_its_own_name(stage: Stage) -> None:
    """refused: the pod is no worker of that job"""
    status, message = await stage.status(stage.token, stage.worker(of="second"))
    assert (status, "is no worker of a job" in message) == (404, True)


async def test_a_worker_asks_for_a_pod_of_its_name_in_another_namespace(stage: Stage) -> None:
    """refused"""
    status, message = await stage.status(stage.token, stage.worker(namespace="default"))
    assert (status, "does not belong" in message) == (403, True)


async def test_a_token_is_used_when_its_pod_is_gone(stage: Stage) -> None:
    """refused at once, although the token's review is cached until it expires"""
    await stage.pods.delete(stage.mine)
    left = job(world("1"), namespace=stage.pods.namespace, pods={1: Peer(OTHER, "uid-of-another")})
    stage.there.board.publish(left, version=2)
    status, message = await stage.status(stage.token)
    assert (status, "is no worker" in message) == (404, True)


async def test_a_token_is_used_when_its_job_is_gone(stage: Stage) -> None:
    """refused: a worker that still trains is told to end"""
    stage.there.board.withdraw(Key(stage.pods.namespace, "job"), version=2)
    status, message = await stage.status(stage.token)
    assert (status, "was deleted" in message) == (410, True)


async def test_a_token_has_expired(direct: Client, pods: Pods) -> None:
    """refused, also if its review is cached"""
    ahead = [0.0]
    tokens = Tokens(review_by(direct), wall=lambda: time.time() + ahead[0])
    async with replica(tokens) as there, Caller(there) as caller:
        mine = await pods.make(MINE)
        there.board.publish(
            job(world("0"), namespace=pods.namespace, pods={0: mine}),
            version=1,
        )
        token, worker = await pods.token(mine), WorkerKey(pods.namespace, "job", MINE)
        assert (await caller.poll(worker, token)).status == 200
        ahead[0] = 700.0  # tokens of this test are good for ten minutes
        said = await caller.poll(worker, token)
    assert (said.status, "has expired" in said.content["message"]) == (401, True)


async def test_the_token_of_an_agent_is_shown_to_the_api_server(
    stage: Stage, tenant: Tenant
) -> None:
    """refused by the API server: the token's only audience is the operator"""
    answer = tenant.showing(stage.token).try_to("GET", "api/v1/pods")
    assert answer.status == 401


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    head, claims, signature = token.split(".")
    return read(head), read(claims), signature


def read(part: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return content


def written(*parts: dict[str, Any]) -> str:
    return ".".join(plain(json.dumps(part).encode()) for part in parts)


def plain(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


async def test_the_claims_of_a_token_are_rewritten(stage: Stage) -> None:
    """refused by the API server: the signature does not match the claims"""
    head, claims, signature = parts_of(stage.token)
    claims["kubernetes.io"]["pod"]["name"] = OTHER
    forged = f"{written(head, claims)}.{signature}"
    status, message = await stage.status(forged, stage.worker(OTHER))
    assert (status, "does not accept the token" in message) == (401, True)


async def test_a_token_says_that_it_needs_no_signature(stage: Stage) -> None:
    """refused by the API server"""
    _, claims, _ = parts_of(stage.token)
    status, message = await stage.status(f"{written({'alg': 'none'}, claims)}.")
    assert (status, "does not accept the token" in message) == (401, True)


async def test_a_token_is_signed_by_the_attacker(stage: Stage) -> None:
    """refused by the API server: the key is not one of its own"""
    head, claims, _ = parts_of(stage.token)
    text = written(head, claims)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signature = plain(key.sign(text.encode(), padding.PKCS1v15(), SHA256()))
    status, message = await stage.status(f"{text}.{signature}")
    assert (status, "does not accept the token" in message) == (401, True)


async def test_a_token_expires_in_the_year_10000(stage: Stage) -> None:
    """refused by the API server; nothing is cached for ever"""
    head, claims, signature = parts_of(stage.token)
    claims["exp"] = 1e308
    status, message = await stage.status(f"{written(head, claims)}.{signature}")
    assert (status, "does not accept the token" in message) == (401, True)


NO_TOKENS = {
    "too long": "a" * (TOKEN_BYTES - 3) + ".b.c" + "d" * 100,
    "nested": "e30." + plain(b"[" * 2_000) + ".x",
    "a very long number": "e30." + plain(b'{"exp":' + b"9" * 2_000 + b"}") + ".x",
    "invalid base64": "~.~.~",
    "another authentication scheme": "Basic YTpi",
}


@pytest.mark.parametrize("token", NO_TOKENS.values(), ids=NO_TOKENS)
async def test_a_worker_shows_something_that_is_no_token(stage: Stage, token: str) -> None:
    """refused before the API server is asked"""
    status, message = await stage.status(token)
    assert status in {400, 401}
    assert len(message) > 10


async def test_a_token_is_put_into_the_url(stage: Stage) -> None:
    """refused: URLs are written into logs, headers are not"""
    where = path(stage.worker(), "world") + f"?access_token={stage.token}"
    said = await stage.caller.send("GET", where, None)
    assert (said.status, "Authorization" in said.content["message"]) == (401, True)


async def test_tokens_are_guessed_without_end(stage: Stage) -> None:
    """refused, after a few without asking the API server; known workers are served as before"""
    head, claims, _ = parts_of(stage.token)
    guesses = [f"{written(head, {**claims, 'jti': str(number)})}.AAAA" for number in range(8)]
    statuses = [(await stage.status(guess))[0] for guess in guesses]
    assert statuses == [401] * 3 + [429] * 5
    assert (await stage.status(stage.token))[0] == 200
