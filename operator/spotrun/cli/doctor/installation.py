"""The installation, judged from what a user may read of it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from spotrun.cli.cluster.installation import Installation
from spotrun.cli.doctor.findings import Finding, Health
from spotrun.cli.jobs.advice import severity
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.text.words import age, seconds_since, span, things

_SILENT_SECONDS = 60.0
"""A job without a phase for so long has no operator: an operator sets one within a second."""
_LEASE_SECONDS = 60.0
_MOST_NAMED = 3

Right = tuple[str, str, str]  # verb, resource, and what it is for

RIGHTS: tuple[Right, ...] = (
    ("list", "trainingjobs.spotrun.dev", "list, show, why, cost"),
    ("watch", "trainingjobs.spotrun.dev", "watch, logs -f"),
    ("create", "trainingjobs.spotrun.dev", "run"),
    ("patch", "trainingjobs.spotrun.dev", "suspend, resume, checkpoint"),
    ("patch", "trainingjobs.spotrun.dev/scale", "scale"),
    ("delete", "trainingjobs.spotrun.dev", "stop"),
    ("list", "pods", "the workers of show"),
    ("get", "pods/log", "logs"),
    ("list", "events.events.k8s.io", "the worlds of show and logs"),
    ("create", "configmaps", "run"),
    ("patch", "configmaps", "run"),
    ("list", "capacitypools.spotrun.dev", "prices and zones of show and why"),
)


@dataclass(frozen=True)
class Facts:
    """All that was read from the cluster; None for what this user may not read."""

    now: datetime
    namespace: str
    own_version: str
    kinds: frozenset[str] = frozenset()  # served in our group
    missing_fields: tuple[str, ...] | None = ()  # of the CRDs, that this version knows
    known: Installation | None = None
    renewed: str | None = None  # of the leader's Lease
    may: Mapping[Right, bool] = field(default_factory=dict)
    jobs: Sequence[Job] | None = ()
    pools: Sequence[Pool] | None = ()


def judged(facts: Facts) -> list[Finding]:
    """Return the findings, in the order in which one depends on another."""
    return [
        *_crds(facts),
        *_version(facts),
        *_operator(facts),
        *_rights(facts),
        *_prices(facts),
        *_losses(facts),
        *_jobs(facts),
    ]


def missing(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the fields of our schema that a served one lacks."""
    known = theirs.get("properties", {})
    for name, schema in ours.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        if name not in known:
            yield here
        else:
            yield from missing(schema, known[name], here)
    if "items" in ours:
        yield from missing(ours["items"], theirs.get("items", {}), path)


def _crds(facts: Facts) -> Iterator[Finding]:
    lacking = sorted({"trainingjobs", "capacitypools"} - facts.kinds)
    if lacking:
        yield Finding(
            Health.BAD,
            f"the cluster does not know {' and '.join(lacking)} of spotrun.dev/v1alpha1",
            "install the chart with crds.install, or `kubectl apply --server-side -f crds/`",
        )
        return
    if facts.missing_fields is None:
        yield Finding(Health.HIDDEN, "the CRDs are installed; their schema cannot be read")
    elif facts.missing_fields:
        named = ", ".join(facts.missing_fields[:_MOST_NAMED])
        yield Finding(
            Health.BAD,
            f"the CRDs are of another version: they lack {len(facts.missing_fields)} fields of "
            f"{facts.own_version} ({named})",
            "`kubectl apply --server-side -f crds/` of the operator's version: Helm does not "
            "upgrade CRDs that it did not install",
        )
    else:
        yield Finding(Health.WELL, "the CRDs are installed, with every field of this version")


def _version(facts: Facts) -> Iterator[Finding]:
    known = facts.known
    if known is None:
        yield Finding(
            Health.HIDDEN,
            "the chart's ConfigMap spotrun-installation cannot be read, so neither version nor "
            "image are known",
            "upgrade the chart; if it is in another namespace than spotrun-system, set "
            "SPOTRUN_SYSTEM_NAMESPACE",
        )
        return
    image = known.trainer_image or "none"
    yield Finding(
        Health.WELL, f"spotrun {known.version} is installed; its image for training is {image}"
    )
    if known.watch_namespace and known.watch_namespace != facts.namespace:
        yield Finding(
            Health.BAD,
            f"the operator serves the namespace {known.watch_namespace} only, and this is "
            f"{facts.namespace}",
            f"use -n {known.watch_namespace}, or install a release for {facts.namespace}",
        )


def _operator(facts: Facts) -> Iterator[Finding]:
    since = seconds_since(facts.renewed, facts.now)
    if since is not None:
        is_led = since < _LEASE_SECONDS
        yield Finding(
            Health.WELL if is_led else Health.BAD,
            f"an operator is the leader, and renewed its Lease {span(since)} ago"
            if is_led
            else f"no operator is the leader: the Lease was renewed {span(since)} ago",
            "" if is_led else "`kubectl -n spotrun-system get pods`, and the log of the operator",
        )
    unseen = [
        job
        for job in facts.jobs or ()
        if not job.status.phase
        and job.spec.managed_by is None
        and (seconds_since(job.metadata.creation_timestamp, facts.now) or 0) > _SILENT_SECONDS
    ]
    if unseen:
        names = ", ".join(job.metadata.name for job in unseen[:_MOST_NAMED])
        yield Finding(
            Health.BAD,
            f"no operator has looked at {things(len(unseen), 'job')} ({names})",
            "check that the operator runs, and that it serves this namespace",
        )
    elif since is None and facts.jobs:
        yield Finding(Health.WELL, "the operator has looked at every job here")
    elif since is None:
        yield Finding(Health.HIDDEN, "whether the operator works can be seen once a job is here")


def _rights(facts: Facts) -> Iterator[Finding]:
    lacking = [right for right, is_allowed in facts.may.items() if not is_allowed]
    if facts.may and not lacking:
        yield Finding(Health.WELL, f"you may use every command in {facts.namespace}")
    for verb, resource, purpose in lacking:
        is_shown = resource.startswith("capacitypools")
        mend = (
            "a ClusterRoleBinding of spotrun-view shows them (docs/security.md)"
            if is_shown
            else f"ask for the role edit or view in {facts.namespace}"
        )
        yield Finding(
            Health.WORSE, f"you may not {verb} {resource}, which is needed for: {purpose}", mend
        )


def _prices(facts: Facts) -> Iterator[Finding]:
    if facts.pools is None:
        return
    if not facts.pools:
        yield Finding(
            Health.WORSE,
            "there is no CapacityPool: no node says in its labels how it is paid for",
            "declare one as in examples/capacity-pool.yaml; jobs run without one, at unknown cost",
        )
        return
    unpriced = [pool for pool in facts.pools if pool.status.unpriced]
    stale = [pool for pool in facts.pools if pool.status.price.stale]
    for pool in unpriced[:_MOST_NAMED]:
        yield Finding(
            Health.WORSE,
            f"no price is known of pool {pool.metadata.name}",
            pool.status.unpriced or "",
        )
    for pool in stale[:_MOST_NAMED]:
        old = age(pool.status.price.as_of, facts.now)
        yield Finding(
            Health.WORSE,
            f"the price of pool {pool.metadata.name} is {old} old",
            "the operator's log says why the cloud does not answer",
        )
    if not unpriced and not stale:
        yield Finding(Health.WELL, f"the prices of {things(len(facts.pools), 'pool')} are known")


def _losses(facts: Facts) -> Iterator[Finding]:
    spot = [pool for pool in facts.pools or () if pool.spec.capacity == "Spot"]
    if not spot:
        return
    taken = sum(pool.status.interruptions_24h for pool in spot)
    yield Finding(
        Health.WELL,
        f"{things(len(spot), 'spot pool')}; {things(taken, 'interruption')} in 24 h. Notices come "
        "by taints, conditions and Events of nodes (docs/clouds.md says what each cloud needs)",
    )


def _jobs(facts: Facts) -> Iterator[Finding]:
    if not facts.jobs:
        return
    troubled = [job for job in facts.jobs if severity(job) <= 1]
    if troubled:
        names = ", ".join(job.metadata.name for job in troubled[:_MOST_NAMED])
        yield Finding(
            Health.WORSE,
            f"jobs that need attention: {len(troubled)} of {len(facts.jobs)} ({names})",
            "`kubectl tjob list`, then `kubectl tjob doctor NAME`",
        )
    else:
        yield Finding(Health.WELL, f"{things(len(facts.jobs), 'job')}, none in trouble")
