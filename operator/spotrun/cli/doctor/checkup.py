"""`kubectl tjob doctor` with a cluster: read the facts, and print the findings."""

import asyncio
import sys
from argparse import Namespace
from importlib.metadata import version
from typing import Any, TypeVar

import msgspec

from spotrun.api.names import TRAINING_JOB
from spotrun.cli.cluster.exit_codes import DONE, REFUSED
from spotrun.cli.cluster.installation import installation, system_namespace
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.doctor.findings import Finding, as_data, drawn, is_bad
from spotrun.cli.doctor.installation import RIGHTS, Facts, Right, judged, missing
from spotrun.cli.doctor.mistakes import mistakes
from spotrun.cli.jobs.output import written
from spotrun.cli.jobs.reading import all_jobs, one_job, pools
from spotrun.cli.text.look import look_of
from spotrun.kube.errors import Forbidden, KubeError, NotFound
from spotrun.kube.lease import LEASES
from spotrun.kube.resource import Resource

T = TypeVar("T")

_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_GROUP_PATH = "/apis/spotrun.dev/v1alpha1"
_SCHEMA_PATH = "/openapi/v3/apis/spotrun.dev/v1alpha1"
_LEASE = "spotrun"


def run(chosen: Namespace) -> int:
    """Check a job or the installation; returns 1 if something must be fixed."""

    async def work(cluster: Cluster) -> int:
        if chosen.name:
            findings = mistakes(await one_job(cluster, chosen.name))
        else:
            findings = judged(await _facts(cluster))
        return _told(findings, chosen.output)

    return ask(chosen, work)


def _told(findings: list[Finding], output: str | None) -> int:
    if output:
        print(written(as_data(findings), output, []))
    else:
        print("\n".join(drawn(findings, look_of(sys.stdout))))
    return REFUSED if is_bad(findings) else DONE


async def _facts(cluster: Cluster) -> Facts:
    kinds = await _kinds(cluster)
    known, renewed, may, fields = await asyncio.gather(
        installation(cluster), _renewed(cluster), _rights(cluster), _missing_fields(cluster)
    )
    is_known = "trainingjobs" in kinds
    return Facts(
        now=cluster.client.clock.now(),  # the clock of the Lease and the objects
        namespace=cluster.namespace,
        own_version=version("spotrun"),
        kinds=kinds,
        missing_fields=fields,
        known=known,
        renewed=renewed,
        may=may,
        jobs=await _allowed(all_jobs(cluster)) if is_known else (),
        pools=await pools(cluster) if is_known else (),
    )


async def _allowed(reading: Any) -> Any:  # noqa: ANN401 - what the reading gives
    try:
        return await reading
    except (Forbidden, NotFound):
        return None


async def _json(cluster: Cluster, path: str) -> dict[str, Any]:
    answer = await cluster.transport.request("GET", path)
    return msgspec.json.decode(answer, type=dict[str, Any])


async def _kinds(cluster: Cluster) -> frozenset[str]:
    try:
        found = await _json(cluster, _GROUP_PATH)
    except NotFound:
        return frozenset()
    return frozenset(one["name"] for one in found.get("resources", ()))


async def _missing_fields(cluster: Cluster) -> tuple[str, ...] | None:
    """Compare the served schema of TrainingJobs with the one of this version."""
    try:
        found = await _json(cluster, _SCHEMA_PATH)
    except KubeError:
        return None
    from spotrun.api.crd import openapi  # noqa: PLC0415 - pydantic takes a fifth of a second
    from spotrun.api.trainingjob import TrainingJob  # noqa: PLC0415

    schemas: dict[str, Any] = found.get("components", {}).get("schemas", {})
    theirs = next((one for name, one in schemas.items() if name.endswith(f".{TRAINING_JOB}")), None)
    return tuple(missing(openapi(TrainingJob), theirs)) if theirs is not None else None


async def _renewed(cluster: Cluster) -> str | None:
    """Return when the leader renewed its Lease; None if that cannot be read."""
    try:
        found = await cluster.client.get(
            LEASES, _LEASE, dict[str, Any], namespace=system_namespace()
        )
    except (Forbidden, NotFound):
        return None
    renewed: str | None = found.get("spec", {}).get("renewTime")
    return renewed


async def _rights(cluster: Cluster) -> dict[Right, bool]:
    allowed = await asyncio.gather(*(_may(cluster, right) for right in RIGHTS))
    return dict(zip(RIGHTS, allowed, strict=True))


async def _may(cluster: Cluster, right: Right) -> bool:
    verb, resource, _ = right
    plural, _, rest = resource.partition(".")
    group, _, subresource = rest.partition("/")
    if not rest:
        plural, _, subresource = plural.partition("/")
    asked = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "namespace": cluster.namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {k: v for k, v in asked.items() if v}},
    }
    answer = await cluster.client.create(_REVIEWS, review, dict[str, Any])
    return bool(answer.get("status", {}).get("allowed"))
