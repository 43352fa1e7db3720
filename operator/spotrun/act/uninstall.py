"""Clean-up before the operator is removed from a cluster, so that nothing waits for it for ever.

Pods of workers carry our finalizer until their cost is in their job's status. Without an operator
that writes it, they could never be deleted, and neither could their namespaces. The same holds for
the finalizer of jobs that a SpendLimit covers.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress

import msgspec

from spotrun.act.pods import finalizer
from spotrun.act.writes import AT_ONCE, Written
from spotrun.api.names import FINALIZER_METERED, FINALIZER_SPEND, LABEL_JOB
from spotrun.kube.errors import Conflict, Invalid, NotFound
from spotrun.kube.lease import LEASES, Lease
from spotrun.kube.resource import Key, Meta, Resource
from spotrun.kube.rest.client import Client, Selection
from spotrun.observe.kube_objects import PODS, TRAINING_JOBS

DEPLOYMENTS = Resource("apps", "v1", "deployments")

_ROUNDS = 5
"""A pod that changes between the list and its release is found again in the next round."""
_STANDBY_SECONDS = 5
"""Standbys try every two seconds, so within this time one of them takes a released Lease."""

Sleep = Callable[[float], Awaitable[None]]


class UndoneError(Exception):
    """The clean-up could not be completed; the message says why."""


class _HeldMeta(Meta, frozen=True, rename="camel"):
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    finalizers: tuple[str, ...] = ()


class _Held(msgspec.Struct, frozen=True):
    metadata: _HeldMeta


async def stop(client: Client, deployment: Key) -> None:
    """Scale the operator's Deployment to zero; a missing Deployment is no error."""
    with suppress(NotFound):
        await client.patch(
            DEPLOYMENTS,
            deployment.name,
            {"spec": {"replicas": 0}},
            Written,
            namespace=deployment.namespace,
            subresource="scale",
        )


async def until_nobody_leads(
    client: Client, namespace: str, *, attempts: int, sleep: Sleep = asyncio.sleep
) -> None:
    """Wait until no replica renews the operator's Lease; raises UndoneError after some attempts.

    The Lease is read twice, as long apart as a leader may be silent. So clocks are not compared,
    and a replica that takes over from one that ends is noticed.
    """
    before = await _lease(client, namespace)
    for _ in range(attempts):
        if before is None:
            return
        lasts = before.spec.lease_duration_seconds if before.spec.holder_identity else None
        await sleep(lasts or _STANDBY_SECONDS)
        now = await _lease(client, namespace)
        if now is None or now.metadata.resource_version == before.metadata.resource_version:
            return
        before = now
    assert before is not None, "it was seen in the last attempt"
    raise UndoneError(
        f"an operator is the leader in the namespace {namespace} and would create more pods "
        f"({before.spec.holder_identity or 'its Lease changes'}): stop it first, with "
        f"--stop-deployment NAME or `kubectl -n {namespace} scale deployment/NAME --replicas=0`"
    )


async def let_go_of_pods(client: Client, namespace: str | None) -> Counter[Key]:
    """Take our finalizer off all pods of a namespace, or of all; return the number for each job.

    Raises KubeError, and UndoneError if some are left after several rounds.
    """
    released = await _let_go_of_all(client, Selection(PODS, namespace), FINALIZER_METERED)
    return Counter(_job_of(pod) for pod in released)


async def let_go_of_jobs(client: Client, namespace: str | None) -> list[Key]:
    """Take our finalizer off the jobs that a SpendLimit covers; return their names.

    Raises KubeError, and UndoneError if some are left after several rounds.
    """
    jobs = Selection(TRAINING_JOBS, namespace)
    try:
        released = await _let_go_of_all(client, jobs, FINALIZER_SPEND)
    except NotFound:
        return []  # the API is gone, and all jobs with it
    return [Key(job.metadata.namespace, job.metadata.name) for job in released]


async def _let_go_of_all(client: Client, selection: Selection, finalizer_name: str) -> list[_Held]:
    released: list[_Held] = []
    found = 0
    slots = asyncio.Semaphore(AT_ONCE)
    for _ in range(_ROUNDS):
        found = 0
        async with aclosing(_held_back(client, selection, finalizer_name)) as pages:
            async for page in pages:
                found += len(page)
                patches = (
                    _let_go(client, selection.resource, one, finalizer_name, slots=slots)
                    for one in page
                )
                done = await asyncio.gather(*patches)
                released += [one for one, is_done in zip(page, done, strict=True) if is_done]
        if not found:
            return released
    raise UndoneError(
        f"{found} {selection.resource.plural} still have their finalizer: something else changed "
        "them during each attempt to remove it; run this again"
    )


async def _lease(client: Client, namespace: str) -> Lease | None:
    try:
        return await client.get(LEASES, "spotrun", Lease, namespace=namespace)
    except NotFound:
        return None


async def _held_back(
    client: Client, selection: Selection, finalizer_name: str
) -> AsyncGenerator[list[_Held], None]:
    """Yield pages of objects with a finalizer; not by label, because labels can be removed."""
    async with aclosing(client.pages(selection)) as pages:
        async for page in pages:
            found = [msgspec.json.decode(item, type=_Held) for item in page.items or ()]
            yield [one for one in found if finalizer_name in one.metadata.finalizers]


async def _let_go(
    client: Client,
    resource: Resource,
    one: _Held,
    finalizer_name: str,
    *,
    slots: asyncio.Semaphore,
) -> bool:
    meta = one.metadata
    at = meta.finalizers.index(finalizer_name)
    patch = finalizer.release(meta.uid, at, finalizer_name)
    async with slots:
        try:
            await client.patch(resource, meta.name, patch, Written, namespace=meta.namespace)
        except (Invalid, Conflict, NotFound):
            return False  # it has changed, or is gone: the next round lists again
    return True


def _job_of(pod: _Held) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.labels.get(LABEL_JOB, ""))
