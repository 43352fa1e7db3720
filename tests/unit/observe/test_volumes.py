"""What is known of claims, and how often it is asked for."""

from typing import Any

import pytest

from spotrun.kube.client import Client
from spotrun.kube.errors import Forbidden, NotFound
from spotrun.kube.resource import Key
from spotrun.observe.volumes import DOUBTED_SECONDS, KEPT_SECONDS, Volumes
from tests.unit.kube.scripted import ScriptedTransport

CLAIM = Key("ns", "checkpoints")


class Bench:
    """An API server with one claim."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.modes: tuple[str, ...] | None = None
        self.error: Exception | None = None
        client = Client(ScriptedTransport(self.answer), field_manager="test")
        self.volumes = Volumes(client, lambda: self.now)

    def answer(self, method: str, path: str, _: Any) -> Any:
        self.asked.append(f"{method} {path}")
        if self.error is not None:
            raise self.error
        return {"spec": {} if self.modes is None else {"accessModes": self.modes}}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (("ReadWriteMany",), True),
        (("ReadWriteOnce", "ReadWriteMany"), True),
        (("ReadWriteOnce",), False),
        (("ReadWriteOncePod",), False),
        (("ReadOnlyMany",), False),
        (None, False),
    ],
)
async def test_only_a_claim_that_many_may_write_is_shared(
    bench: Bench, modes: tuple[str, ...] | None, expected: bool
) -> None:
    bench.modes = modes
    assert await bench.volumes.is_shared(CLAIM) is expected
    assert bench.asked == ["GET /api/v1/namespaces/ns/persistentvolumeclaims/checkpoints"]


@pytest.mark.parametrize(
    ("modes", "kept", "again"),
    [(("ReadWriteMany",), KEPT_SECONDS, float("inf")), ((), DOUBTED_SECONDS, DOUBTED_SECONDS)],
)
async def test_it_is_asked_again_after_a_while(
    bench: Bench, modes: tuple[str, ...], kept: float, again: float
) -> None:
    bench.modes = modes
    await bench.volumes.is_shared(CLAIM)
    assert bench.volumes.again_seconds(CLAIM) == again
    bench.now = kept - 1
    await bench.volumes.is_shared(CLAIM)
    assert len(bench.asked) == 1
    bench.now = kept
    await bench.volumes.is_shared(CLAIM)
    assert len(bench.asked) == 2


@pytest.mark.parametrize("error", [NotFound("no"), Forbidden("no")])
async def test_of_a_claim_that_cannot_be_read_nothing_is_said(
    bench: Bench, error: Exception
) -> None:
    bench.error = error
    assert await bench.volumes.is_shared(CLAIM) is None
    assert bench.volumes.again_seconds(CLAIM) == DOUBTED_SECONDS


async def test_memory_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotrun.observe.volumes.MOST_CLAIMS", 3)
    for number in range(5):
        await bench.volumes.is_shared(Key("ns", f"c{number}"))
    await bench.volumes.is_shared(Key("ns", "c4"))
    assert len(bench.asked) == 5
    await bench.volumes.is_shared(Key("ns", "c0"))
    assert len(bench.asked) == 6
