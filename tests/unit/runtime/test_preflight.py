import asyncio
import logging
from typing import Any

import pytest

from spotrun.kube.errors import Forbidden, Invalid, KubeError, NotFound, Retryable, Unauthorized
from spotrun.kube.rest.client import ListMeta, Page, Selection
from spotrun.observe.kube_objects import PODS, TRAINING_JOBS
from spotrun.runtime import preflight

SELECTIONS = (Selection(TRAINING_JOBS, "ml"), Selection(PODS, "ml"))


class Scripted:
    """A client whose lists fail for some while, by resource."""

    def __init__(self, **failures: list[KubeError]) -> None:
        self.failures = failures

    async def first_page(self, selection: Selection, *, page: int) -> Page:
        assert page == 1
        left = self.failures.get(selection.resource.plural, [])
        if left:
            raise left.pop(0)
        return Page(ListMeta())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PAUSE_SECONDS", 0)


async def explained(caplog: pytest.LogCaptureFixture, client: Any) -> list[str]:
    with caplog.at_level(logging.INFO, "spotrun.runtime.preflight"):
        async with asyncio.timeout(1):
            await preflight.explain(client, SELECTIONS)
    return [record.getMessage() for record in caplog.records]


async def test_nothing_is_said_where_nothing_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    assert await explained(caplog, Scripted()) == []


async def test_what_is_in_the_way_is_said_once_and_when_it_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    missing = NotFound("no such kind")
    said = await explained(caplog, Scripted(trainingjobs=[missing] * 5, pods=[Retryable("away")]))

    assert said == [
        "the API server cannot be asked for pods in the namespace ml, the operator waits: away",
        preflight.advice(missing, "trainingjobs in the namespace ml"),
        "everything can be listed now",
    ]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NotFound("x"), "install the CRDs (`kubectl apply --server-side -f crds/`)"),
        (Forbidden("User cannot list"), "apply manifests/rbac.yaml"),
        (Forbidden("User cannot list"), "(User cannot list)"),
        (Unauthorized("no"), "has the token expired"),
        (Retryable("refused"), "the operator waits: refused"),
        (Invalid("odd"), "pods cannot be listed, the operator waits: odd"),
    ],
)
def test_advice_says_what_to_try(error: KubeError, words: str) -> None:
    assert words in preflight.advice(error, "pods")


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_namespace_that_is_misspelled_is_told_of(
    is_there: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def synced() -> None:
        await asyncio.sleep(0)

    await preflight.warn_if_missing("nowhere", synced, lambda: is_there)

    assert ("there is no namespace nowhere" in caplog.text) is not is_there
