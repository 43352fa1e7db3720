"""The questions to a cluster before anything is written to it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.e2e.existing.settings import Settings
from tests.e2e.installation import RELEASE, SYSTEM

DEFINITIONS = tuple(
    f"{plural}.spotrun.dev"
    for plural in ("trainingjobs", "capacitypools", "tuningjobs", "spendlimits")
)


@dataclass(frozen=True)
class Facts:
    """The facts about a cluster, as it was found."""

    context: str
    server: str
    version: str
    definitions: tuple[str, ...]  # of those that the chart brings
    operators: tuple[str, ...]  # namespace/name of Deployments
    has_system_namespace: bool
    reclaim_policies: Mapping[str, str]  # by storage class


@dataclass(frozen=True)
class Selection:
    """The tests of this run."""

    run: int
    left_out: Mapping[str, tuple[str, ...]]  # their names, by the reason


def objection(facts: Facts, settings: Settings) -> str | None:
    """Why the tests cannot use a cluster, and what to try."""
    if facts.operators:
        return (
            f"spotrun is installed on {facts.context} as {_listed(facts.operators)}, and two of "
            f"them would quarrel about the same jobs: use another cluster. {_if_kept()}"
        )
    if facts.definitions:
        return (
            f"{facts.context} has the CRDs {_listed(facts.definitions)}, which the tests would "
            f"remove at their end, and all jobs with them: use another cluster. {_if_kept()}"
        )
    if facts.has_system_namespace:
        return (
            f"{facts.context} has a namespace {SYSTEM}, which the tests would remove at their end: "
            f"use another cluster, or remove it with: kubectl delete namespace {SYSTEM}"
        )
    return _objection_to_storage(facts, settings.storage_class)


def _objection_to_storage(facts: Facts, storage_class: str) -> str | None:
    policy = facts.reclaim_policies.get(storage_class)
    if policy is None:
        there = _listed(sorted(facts.reclaim_policies)) or "none"
        return (
            f"{facts.context} has no storage class {storage_class}: name one with STORAGE_CLASS "
            f"that makes ReadWriteMany volumes. There are: {there}"
        )
    if policy != "Delete":
        return (
            f"the storage class {storage_class} keeps its volumes (reclaimPolicy {policy}), and "
            "those of the tests would be left: name one with STORAGE_CLASS that deletes them"
        )
    return None


def plan(facts: Facts, settings: Settings, selection: Selection) -> str:
    """Say what the tests are about to do there, for whoever has to agree."""
    end = (
        "leave the operator and its CRDs there, for KEEP is set"
        if settings.keep
        else "remove all of this; the CRDs stay if others have made jobs meanwhile"
    )
    return f"""\
on a cluster that is there already:
    context  {facts.context}
    server   {facts.server} (Kubernetes {facts.version})
These tests will
  - install the CRDs {_listed(DEFINITIONS[:2])},
    {_listed(DEFINITIONS[2:])}
  - install {settings.operator_image} as release {RELEASE} in the new namespace {SYSTEM},
    with rights to the jobs and pods of all namespaces; kill its pods, upgrade it, uninstall it, and
    install it again
  - run {selection.run} tests in namespaces of their own, with pods of {settings.trainer_image}
    and volumes of {settings.storage_class}
  - {end}
{_left_out(selection)}"""


def after_keep() -> str:
    """Say what was left, and how to remove it by hand."""
    commands = "\n".join(f"    {line}" for line in _removal())
    return f"the operator and its CRDs are left, for KEEP is set; to remove them:\n{commands}"


def _if_kept() -> str:
    return f"Or, if it is what KEEP=1 left there: {'; '.join(_removal())}"


def _removal() -> list[str]:
    return [
        f"helm uninstall {RELEASE} --namespace {SYSTEM}",
        f"kubectl delete namespace {SYSTEM}",
        f"kubectl delete customresourcedefinition {' '.join(DEFINITIONS)}",
    ]


def _left_out(selection: Selection) -> str:
    lines = [f"  - {_listed(names)}: {why}" for why, names in selection.left_out.items()]
    said = (
        "They leave out what only the kind cluster can carry:" if lines else "They leave out none."
    )
    return "\n".join([said, *lines])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
