import asyncio
import base64
import gc
import json
from typing import Any

import pytest

from spotrun.agents.tokens import (
    POD_NAME,
    POD_UID,
    Bearer,
    Limits,
    ReviewStatus,
    ReviewUser,
    Tokens,
    bearer_of,
)
from spotrun.http.errors import Refused
from spotrun.http.rate_limit import Rate
from spotrun.kube.errors import Forbidden, KubeError, Retryable

NOW = 1_000_000.0
GOOD_USER = ReviewUser(
    "system:serviceaccount:team:default", {POD_NAME: ("job-0",), POD_UID: ("uid-0",)}
)
GOOD = ReviewStatus(authenticated=True, audiences=("spotrun.dev",), user=GOOD_USER)
BAD = ReviewStatus(error="invalid bearer token")


def token(**changes: Any) -> str:
    claims: dict[str, Any] = {
        "aud": ["spotrun.dev"],
        "exp": NOW + 3_600,
        "kubernetes.io": {"namespace": "team", "pod": {"name": "job-0", "uid": "uid-0"}},
    }
    return jwt(claims | changes)


def jwt(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2lnbmF0dXJl"


class ApiServer:
    """Answers reviews, and counts them."""

    def __init__(self, answer: ReviewStatus | KubeError = GOOD) -> None:
        self.answer = answer
        self.reviewed: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def review(self, shown: str) -> ReviewStatus:
        self.reviewed.append(shown)
        await self.may_answer.wait()
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer


class World:
    """Tokens with an API server and clocks of their own."""

    def __init__(
        self, answer: ReviewStatus | KubeError = GOOD, limits: Limits | None = None
    ) -> None:
        self.api = ApiServer(answer)
        self.now = NOW
        self.slept: list[float] = []
        self.tokens = Tokens(
            self.api.review,
            limits=limits or Limits(),
            clock=lambda: self.now,
            wall=lambda: self.now,
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def check(
        self, shown: str, *, namespace: str = "team", pod: str = "job-0", address: str = "10.0.0.1"
    ) -> Bearer:
        return await self.tokens.check(shown, namespace=namespace, pod=pod, address=address)

    async def status(self, shown: str, **more: str) -> int:
        try:
            await self.check(shown, **more)
        except Refused as refused:
            return refused.status
        return 200


async def test_a_good_token_is_reviewed_once() -> None:
    world = World()

    bearers = [await world.check(token()) for _ in range(3)]

    assert bearers == [Bearer("team", "job-0", "uid-0")] * 3
    assert world.api.reviewed == [token()]


CHEAPLY_REFUSED: dict[str, tuple[str, int]] = {
    "empty": ("", 401),
    "no token": ("hello", 401),
    "three parts of nothing": ("..", 401),
    "not base64": ("a.\u00e4\u00f6.c", 401),
    "not JSON": ("a." + base64.urlsafe_b64encode(b"[").decode() + ".c", 401),
    "deep JSON": ("a." + base64.urlsafe_b64encode(b"[" * 2000).decode() + ".c", 401),
    "no claims": (jwt({}), 401),
    "a list": (jwt([]), 401),
    "too long": (token(padding="x" * 5000), 401),
    "for somebody else": (token(aud=["https://kubernetes.default.svc"]), 401),
    "expired": (token(exp=NOW), 401),
    "expires never": (jwt({"aud": ["spotrun.dev"]}), 401),
    "bound to no pod": (token(**{"kubernetes.io": {"namespace": "team"}}), 403),
    "of another pod": (
        token(**{"kubernetes.io": {"namespace": "team", "pod": {"name": "job-1", "uid": "u"}}}),
        403,
    ),
    "of another namespace": (
        token(**{"kubernetes.io": {"namespace": "other", "pod": {"name": "job-0", "uid": "u"}}}),
        403,
    ),
}


@pytest.mark.parametrize(("shown", "status"), CHEAPLY_REFUSED.values(), ids=CHEAPLY_REFUSED)
async def test_what_cannot_be_good_costs_no_review(shown: str, status: int) -> None:
    world = World()

    assert await world.status(shown) == status
    assert world.api.reviewed == []


def user(username: str, **extra: tuple[str, ...]) -> ReviewStatus:
    named = {POD_NAME: ("job-0",), POD_UID: ("uid-0",)} | {
        {"name": POD_NAME, "uid": POD_UID}[key]: value for key, value in extra.items()
    }
    return ReviewStatus(True, ("spotrun.dev",), ReviewUser(username, named))


ACCOUNT = "system:serviceaccount:team:default"


@pytest.mark.parametrize(
    ("said", "bearer"),
    [
        pytest.param(GOOD, Bearer("team", "job-0", "uid-0"), id="good"),
        pytest.param(BAD, None, id="not authenticated"),
        pytest.param(
            ReviewStatus(False, ("spotrun.dev",), GOOD_USER), None, id="a user all the same"
        ),
        pytest.param(ReviewStatus(True, ("api",), GOOD_USER), None, id="another audience"),
        pytest.param(
            ReviewStatus(True, None, GOOD_USER), None, id="an API server without audiences"
        ),
        pytest.param(user("admin"), None, id="a person"),
        pytest.param(user("system:node:team:default"), None, id="a node"),
        pytest.param(user(ACCOUNT, name=()), None, id="no pod name"),
        pytest.param(user(ACCOUNT, uid=()), None, id="no pod UID"),
        pytest.param(user(ACCOUNT, uid=("a", "b")), None, id="two UIDs"),
        pytest.param(
            ReviewStatus(True, ("spotrun.dev",), ReviewUser(ACCOUNT)), None, id="bound to nothing"
        ),
    ],
)
def test_only_tokens_bound_to_a_pod_count(said: ReviewStatus, bearer: Bearer | None) -> None:
    assert bearer_of(said) == bearer


async def test_claims_alone_are_not_believed() -> None:
    other = user(ACCOUNT, name=("job-7",), uid=("uid-7",))

    assert await World(BAD).status(token()) == 401
    assert await World(other).status(token()) == 403


async def test_a_known_token_of_another_pod_is_refused() -> None:
    world = World()
    await world.check(token())

    assert await world.status(token(), pod="job-1") == 403
    assert await world.status(token(), namespace="other") == 403


async def test_a_token_is_known_until_it_expires() -> None:
    world = World()
    await world.check(token())

    world.now += 3_599
    assert await world.status(token()) == 200
    world.now += 1
    assert await world.status(token()) == 401
    assert len(world.api.reviewed) == 1


async def test_a_refused_token_is_not_reviewed_again_at_once() -> None:
    world = World(BAD)

    assert [await world.status(token()) for _ in range(5)] == [401] * 5
    assert len(world.api.reviewed) == 1

    world.now += 11
    world.api.answer = GOOD
    assert await world.status(token()) == 200


async def test_reviews_of_one_token_at_one_time_are_one() -> None:
    world = World()
    world.api.may_answer.clear()
    checks = [asyncio.create_task(world.status(token())) for _ in range(10)]
    await asyncio.sleep(0)

    checks[0].cancel()  # who hangs up does not spoil it for the others
    world.api.may_answer.set()

    assert await asyncio.gather(*checks[1:]) == [200] * 9
    assert len(world.api.reviewed) == 1


@pytest.mark.parametrize("error", [Retryable("away"), Forbidden("our own rights are missing")])
async def test_known_tokens_go_on_while_the_api_server_is_away(error: KubeError) -> None:
    world = World()
    await world.check(token())
    world.api.answer = error

    assert await world.status(token()) == 200
    with pytest.raises(Refused) as refused:
        await world.check(token(exp=NOW + 7_200))
    assert refused.value.status == 503
    assert refused.value.headers == {"Retry-After": "2"}

    world.api.answer = GOOD  # and that was not remembered
    assert await world.status(token(exp=NOW + 7_200)) == 200


async def test_an_api_server_that_does_not_answer_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotrun.agents.tokens.REVIEW_SECONDS", 0.01)
    world = World()
    world.api.may_answer.clear()

    assert await world.status(token()) == 503


async def test_a_failed_review_that_nobody_waits_for_is_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(Retryable("away"))
    world.api.may_answer.clear()
    check = asyncio.create_task(world.check(token()))
    await asyncio.sleep(0)
    check.cancel()
    world.api.may_answer.set()

    await asyncio.gather(check, return_exceptions=True)
    await asyncio.sleep(0.01)
    gc.collect()

    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_reviews_are_limited() -> None:
    world = World(limits=Limits(reviews=Rate(per_second=2, burst=3)))

    statuses = [await world.status(token(number=n)) for n in range(20)]

    # 3 at once, some in their turn within 5 s; then agents are asked to come again.
    assert statuses == [200] * 13 + [429] * 7
    assert world.slept == pytest.approx([n / 2 for n in range(1, 11)])


async def test_bad_tokens_cost_the_address_that_shows_them() -> None:
    world = World(BAD, limits=Limits(refusals=Rate(per_second=1, burst=3)))
    hostile = [await world.status(token(number=n), address="10.6.6.6") for n in range(50)]
    world.api.answer = GOOD

    assert hostile == [401] * 3 + [429] * 47
    assert await world.status(token(), address="10.6.6.6") == 429
    assert await world.status(token(), address="10.0.0.1") == 200


async def test_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotrun.agents.tokens._MOST_KNOWN", 5)
    world = World()

    for number in range(20):
        await world.check(token(number=number))

    assert len(world.tokens._known) == 5
    await world.check(token(number=0))
    assert len(world.api.reviewed) == 21
