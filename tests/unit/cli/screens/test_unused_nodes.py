"""`idle`: which nodes nobody uses, since when, what they cost and why they stay."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from spotrun.cli.report.unused_nodes.command import priced
from spotrun.cli.report.unused_nodes.facts import (
    DO_NOT_DISRUPT,
    NODE_POOL,
    SCALE_DOWN_DISABLED,
    Kept,
    NodeClaim,
    NodePool,
    Pod,
    Unused,
    unused_nodes,
)
from spotrun.cli.report.unused_nodes.screen import Costly, as_data, screen
from spotrun.cli.text.look import Look
from spotrun.observe.kube_objects import NodeObject, PoolMeta, PoolObject

NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)
LOOK = Look(NOON, width=160)


def before(minutes: float) -> str:
    return (NOON - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_node(name: str, age: float = 120, **meta: Any) -> NodeObject:
    found = {"name": name, "creationTimestamp": before(age), **meta}
    return msgspec.convert({"metadata": found}, NodeObject)


def a_pod(
    node: str, owner: str = "ReplicaSet", phase: str = "Running", ended: float | None = None
) -> Pod:
    state = {"terminated": {"finishedAt": before(ended)}} if ended is not None else {}
    return msgspec.convert(
        {
            "metadata": {"ownerReferences": [{"kind": owner}]},
            "spec": {"nodeName": node} if node else {},
            "status": {"phase": phase, "containerStatuses": [{"name": "a", "state": state}]},
        },
        Pod,
    )


def claimed(node: str, minutes: float) -> NodeClaim:
    status = {"nodeName": node, "lastPodEventTime": before(minutes)}
    return msgspec.convert({"metadata": {}, "status": status}, NodeClaim)


def a_node_pool(name: str, after: str) -> NodePool:
    spec = {"disruption": {"consolidateAfter": after}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, NodePool)


def looked(nodes: list[NodeObject], *pods: Pod, **more: Any) -> list[Unused]:
    given: dict[str, Any] = {"claims": [], "pools": [], "at_least": timedelta(minutes=10), **more}
    return list(unused_nodes(nodes, pods, now=NOON, **given))


@pytest.mark.parametrize(
    ("pods", "is_unused"),
    [
        ((), True),
        ((a_pod("a"),), False),
        ((a_pod("a", phase="Pending"),), False),  # its image is pulled
        ((a_pod("a", owner="DaemonSet"), a_pod("a", owner="Node")), True),
        ((a_pod("a", phase="Succeeded", ended=30),), True),
        ((a_pod("a", phase="Failed", ended=5),), False),  # not for ten minutes
        ((a_pod("b"), a_pod("", phase="Pending")), True),
    ],
)
def test_a_node_is_used_by_a_pod_that_somebody_put_there(
    pods: tuple[Pod, ...], is_unused: bool
) -> None:
    assert [one.name for one in looked([a_node("a")], *pods)] == ["a"] * is_unused


@pytest.mark.parametrize(
    ("node", "more", "minutes", "is_known"),
    [
        (a_node("a", age=120), {}, 120, False),
        (a_node("a", age=120), {"claims": [claimed("a", 15)]}, 15, True),
        (a_node("a", age=120), {"claims": [claimed("b", 15)]}, 120, False),
    ],
)
def test_since_when_is_known_from_karpenter_alone(
    node: NodeObject, more: dict[str, Any], minutes: int, is_known: bool
) -> None:
    [found] = looked([node], **more)
    assert (found.since, found.is_since_known) == (NOON - timedelta(minutes=minutes), is_known)


def test_new_nodes_and_nodes_that_go_are_left_out() -> None:
    going = a_node("b", deletionTimestamp=before(1))
    assert not looked([a_node("a", age=9), going])
    assert not looked([a_node("a")], claims=[claimed("a", 9)])


PATCH = '{"spec":{"disruption":{"consolidateAfter":"1m"}}}'
ANNOTATED = {DO_NOT_DISRUPT: "true"}
IN_POOL = {NODE_POOL: "gpu"}


@pytest.mark.parametrize(
    ("meta", "pools", "why", "command"),
    [
        (
            {"annotations": ANNOTATED, "labels": IN_POOL},
            [],
            "its annotation karpenter.sh/do-not-disrupt keeps it",
            "kubectl annotate node a karpenter.sh/do-not-disrupt-",
        ),
        (
            {"annotations": {SCALE_DOWN_DISABLED: "true"}},
            [],
            f"its annotation {SCALE_DOWN_DISABLED} keeps it",
            f"kubectl annotate node a {SCALE_DOWN_DISABLED}-",
        ),
        (
            {"labels": IN_POOL},
            [a_node_pool("gpu", "Never")],
            "NodePool gpu has consolidateAfter: Never",
            f"kubectl patch nodepool gpu --type=merge -p '{PATCH}'",
        ),
        (
            {"labels": IN_POOL},
            [a_node_pool("gpu", "1h")],
            "Karpenter removes it after the consolidateAfter of gpu (1h)",
            "",
        ),
        ({}, [], "not Karpenter's: cluster-autoscaler may remove it, or you do", ""),
    ],
)
def test_why_a_node_stays_and_what_asks_for_its_removal(
    meta: dict[str, Any], pools: list[NodePool], why: str, command: str
) -> None:
    [found] = looked([a_node("a", **meta)], pools=pools)
    assert found.kept == Kept(why, command)


def a_capacity_pool(name: str, **spec: Any) -> PoolObject:
    given = {"capacity": "OnDemand", "nodeSelector": {"pool": name}, **spec}
    raw = msgspec.Raw(msgspec.json.encode(given))
    return PoolObject(PoolMeta(name=name), raw)


def test_the_whole_screen() -> None:
    own = {"purchaseUsd": "35040", "years": "2"}
    declared = [a_capacity_pool("gpu", usdPerHour="3.5"), a_capacity_pool("own", ownNodes=own)]
    nodes = [
        a_node("a", labels={"pool": "gpu"}, annotations=ANNOTATED),
        a_node("b", labels={"pool": "gpu", **IN_POOL}),
        a_node("c", labels={"pool": "gpu"}),
        a_node("d", labels={"pool": "own"}),
        a_node("e", annotations={"spotrun.dev/usd-per-hour": "0.25"}),
        a_node("f"),
    ]
    unused = looked(nodes, a_pod("c"), claims=[claimed("b", 15)], pools=[a_node_pool("gpu", "1h")])
    found, nodes_of = priced(unused, nodes, declared, NOON)
    assert (
        "\n".join(screen(found, nodes_of, LOOK))
        == """\
POOL    NODES  UNUSED  LOST($/HR)
(none)      2       2        0.25
gpu         3       2        7.00
own         1       1        2.00

NODE  POOL    UNUSED FOR  $/HR  WHY IT STAYS
e     (none)  at most 2h  0.25  not Karpenter's: cluster-autoscaler may remove it, or you do
f     (none)  at most 2h     -  not Karpenter's: cluster-autoscaler may remove it, or you do
a     gpu     at most 2h  3.50  its annotation karpenter.sh/do-not-disrupt keeps it
b     gpu     15m         3.50  Karpenter removes it after the consolidateAfter of gpu (1h)
d     own     at most 2h  2.00  not Karpenter's: cluster-autoscaler may remove it, or you do

To have them removed by their autoscaler:
    kubectl annotate node a karpenter.sh/do-not-disrupt-"""
    )
    assert [(one["node"], one["usdPerHour"]) for one in as_data(found)][:2] == [
        ("e", "0.25"),
        ("f", None),
    ]


def test_where_all_is_used_that_is_said() -> None:
    assert screen([], {"gpu": 3}, LOOK) == ["Each of the 3 nodes is used by a workload, or is new."]


def test_a_node_of_unknown_price_is_not_free() -> None:
    node = Unused("a", NOON, True, Kept(""))
    [_, row, *_] = screen([Costly(node, "gpu", None), Costly(node, "gpu", Decimal(2))], {}, LOOK)
    assert row.split() == ["gpu", "0", "2", "2.00"]
