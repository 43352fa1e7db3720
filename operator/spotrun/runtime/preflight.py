"""Reasons why the caches cannot be filled, with advice."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from spotrun.kube.errors import Forbidden, KubeError, NotFound, Retryable, Unauthorized
from spotrun.kube.rest.client import Client, Selection

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
_FILLED_SECONDS = 2.0
"""The time in which 10,000 pods are listed."""


async def explain_if_empty(
    client: Client, selections: Sequence[Selection], are_filled: Callable[[], bool]
) -> None:
    """Explain in the log why caches stay empty, and what to do."""
    await asyncio.sleep(_FILLED_SECONDS)
    if not are_filled():
        await explain(client, selections)


async def explain(client: Client, selections: Sequence[Selection]) -> None:
    """Try until everything can be listed; each obstacle is logged once."""
    logged: set[str] = set()
    while True:
        answers = await asyncio.gather(*(_hindrance(client, one) for one in selections))
        obstacles = {answer for answer in answers if answer is not None}
        for obstacle in sorted(obstacles - logged):
            log.error("%s", obstacle)
        if not obstacles:
            break
        logged |= obstacles
        await asyncio.sleep(PAUSE_SECONDS)
    if logged:
        log.info("everything can be listed now")


async def warn_if_missing(
    namespace: str, synced: Callable[[], Awaitable[None]], exists: Callable[[], bool]
) -> None:
    """Warn of a missing namespace: perhaps its name is misspelled, and it will never have jobs."""
    await synced()
    if not exists():
        log.warning(
            "there is no namespace %s, so the operator has nothing to do: create it, or correct "
            "--watch-namespace",
            namespace,
        )


def advice(error: KubeError, what: str) -> str:
    """Return a sentence on what went wrong, and what to try."""
    match error:
        case Retryable():
            return f"the API server cannot be asked for {what}, the operator waits: {error}"
        case NotFound():
            return (
                f"the cluster does not know {what}: install the CRDs "
                "(`kubectl apply --server-side -f crds/`); until then the operator waits"
            )
        case Forbidden():
            return (
                f"the operator's account may not list {what}: apply manifests/rbac.yaml, or, for "
                f"one namespace (--watch-namespace), manifests/rbac-namespaced.yaml; until then "
                f"the operator waits ({error})"
            )
        case Unauthorized():
            return (
                "the API server does not accept the operator's credentials: has the token expired, "
                f"or is it of another cluster? The operator waits and reads them again ({error})"
            )
        case _:
            return f"{what} cannot be listed, the operator waits: {error}"


async def _hindrance(client: Client, selection: Selection) -> str | None:
    what = selection.resource.plural
    if selection.namespace is not None:
        what += f" in the namespace {selection.namespace}"
    try:
        await client.first_page(selection, page=1)
    except KubeError as error:
        return advice(error, what)
    return None
