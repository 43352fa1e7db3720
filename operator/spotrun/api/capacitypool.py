"""The CapacityPool: one offer of the market, and what the operator has observed about it."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.config import JsonDict

from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.bounded import Count, LongText, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.meta import ConditionStatus, ObjectMeta
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice
from spotrun.api.spec.own_nodes import OwnNodes
from spotrun.api.spec.selector import Labels, LabelSelector

_Name = Annotated[str, Field(min_length=1, max_length=128)]
_SET: JsonDict = {"x-kubernetes-list-type": "set"}


class Capacity(Choice):
    """The way in which capacity is paid for: its capacity type."""

    SPOT = "Spot", "cheaper, and can be taken away at short notice"
    ON_DEMAND = "OnDemand", "stays until it is given back"
    RESERVED = "Reserved", "paid for in advance"


class TolerationOperator(Choice):
    """The comparison that a toleration makes."""

    EXISTS = "Exists", "the taint has the key"
    EQUAL = "Equal", "the taint has the key and the value"


class Effect(Choice):
    """The effect of a taint."""

    NO_SCHEDULE = "NoSchedule", "keeps new pods away"
    PREFER_NO_SCHEDULE = "PreferNoSchedule", "keeps new pods away where possible"
    NO_EXECUTE = "NoExecute", "keeps new pods away and removes running ones"


class Toleration(Model):
    """A taint that workers in this pool tolerate."""

    key: ShortText | None = Field(None, description="The taint's key. Default: every key.")
    operator: TolerationOperator = Field(
        TolerationOperator.EQUAL,
        description=f"Default Equal: the comparison. {TolerationOperator.explained()}",
    )
    value: ShortText | None = Field(None, description="The taint's value, for Equal.")
    effect: Effect | None = Field(
        None, description=f"The taint's effect. Default: every effect. {Effect.explained()}"
    )
    toleration_seconds: Count | None = Field(
        None,
        description="Seconds for which the taint is tolerated, with effect NoExecute. Default: "
        "forever.",
    )

    rules = (
        Rule(
            cel="has(self.key) || self.operator == 'Exists'",
            message="a toleration without a key needs operator: Exists",
            holds=lambda t: t.key is not None or t.operator is TolerationOperator.EXISTS,
        ),
        Rule(
            cel="self.operator != 'Exists' || !has(self.value) || self.value == ''",
            message="a toleration with operator: Exists takes no value: leave it out",
            holds=lambda t: t.operator is not TolerationOperator.EXISTS or not t.value,
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds needs effect: NoExecute",
            holds=lambda t: t.toleration_seconds is None or t.effect is Effect.NO_EXECUTE,
        ),
    )


class CapacityPoolSpec(Model):
    """The nodes that belong to the pool, whether or not any exist now."""

    instance_types: Annotated[tuple[_Name, ...], Field(max_length=64)] | None = Field(
        None,
        description="Instance types of the pool's nodes: a node may have any of them, e.g. "
        "[g5.xlarge, g6.xlarge]. Default: any.",
        json_schema_extra=_SET,
    )
    zones: Annotated[tuple[_Name, ...], Field(max_length=64)] | None = Field(
        None,
        description="Zones of the pool's nodes: a node may be in any of them. Default: any.",
        json_schema_extra=_SET,
    )
    region: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        None, description="The cloud's region; prices depend on it. Default: unknown."
    )
    capacity: Capacity = Field(
        description=f"The capacity type of the nodes. {Capacity.explained()}"
    )
    node_selector: Labels | None = Field(
        None, description="Labels that a node of the pool must have. Default: none."
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] | None = Field(
        None,
        description="Taints that workers tolerate in this pool, in addition to the usual taints "
        "of spot and GPU nodes. Default: none.",
    )
    namespace_selector: LabelSelector | None = Field(
        None, description="Namespaces whose jobs may use the pool. Default: all."
    )
    usd_per_hour: Amount | None = Field(
        None,
        description="Price of one node, in USD per hour. Default: from the price tables; if they "
        "have no price either, the price is unknown.",
    )
    own_nodes: OwnNodes | None = Field(
        None,
        description="Costs of nodes that you own; the price per hour is computed from them. "
        "Default: the nodes are rented.",
    )
    max_workers: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="The maximum number of workers in this pool, over all jobs that one operator "
        "serves. Default: no limit.",
    )

    rules = (
        Rule(
            cel="(has(self.instanceTypes) && self.instanceTypes.size() > 0)"
            " || (has(self.nodeSelector) && self.nodeSelector.size() > 0)",
            message="a pool must say which nodes belong to it: give instanceTypes, nodeSelector "
            "or both",
            holds=lambda p: bool(p.instance_types or p.node_selector),
        ),
        *(
            Rule(
                cel=f"!has(self.{alias}) || self.{alias}.all(a, self.{alias}.exists_one(b, a == "
                "b))",
                message=f"{alias} must not name a value twice",
                holds=holds,
            )
            for alias, holds in (
                ("instanceTypes", lambda p: _each_once(p.instance_types)),
                ("zones", lambda p: _each_once(p.zones)),
            )
        ),
        Rule(
            cel="!has(self.ownNodes) || !has(self.usdPerHour)",
            message="usdPerHour and ownNodes both say what a node costs: give one of them",
            holds=lambda p: p.own_nodes is None or p.usd_per_hour is None,
        ),
        Rule(
            cel="!has(self.ownNodes) || self.capacity != 'Spot'",
            message="a cloud cannot take your own nodes away: ownNodes needs capacity: Reserved "
            "or OnDemand",
            holds=lambda p: p.own_nodes is None or p.capacity is not Capacity.SPOT,
        ),
    )


def _each_once(names: tuple[str, ...] | None) -> bool:
    return len(set(names or ())) == len(names or ())


class PriceChange(Model):
    """A price, and the time from which it was valid."""

    time: Time = Field(description="Time from which the price was valid.")
    usd_per_hour: Amount = Field(description="The price of one node, in USD per hour.")


class Price(Model):
    """The price of a node of the pool."""

    usd_per_hour: Amount | None = Field(
        None, description="Price of one node now, in USD per hour; absent while unknown."
    )
    on_demand_usd_per_hour: Amount | None = Field(
        None, description="On-demand price of the same node, in USD per hour; absent while unknown."
    )
    source: ShortText | None = Field(
        None,
        description="The source of the price, e.g. the pool's spec, a price table or the cloud.",
    )
    as_of: Time | None = Field(
        None,
        description="Time at which the source last gave this price; accurate to ten minutes while "
        "the price does not change.",
    )
    stale: bool | None = Field(
        None,
        description="True if a live source has given no price for long; the last price is still "
        "used.",
    )
    recent: Annotated[tuple[PriceChange, ...], Field(max_length=256)] | None = Field(
        None,
        description="Past price changes, oldest first. The cost of workers is computed from them.",
    )


class PoolNode(Model):
    """The resources of one node of the pool."""

    cpu: Amount = Field(description="CPU cores that pods can use.")
    memory: Amount = Field(description="Memory that pods can use, in bytes.")
    gpus: Count = Field(description="GPUs that pods can use.")
    accelerator: ShortText | None = Field(
        None, description="The GPU model as the platform names it, e.g. a10g."
    )


class PoolInterruption(Model):
    """Nodes that were taken away together."""

    time: Time = Field(
        description="Time at which the first of these nodes announced its end, or was found "
        "missing."
    )
    nodes: Count = Field(description="Number of nodes that were taken away within a few minutes.")
    node_hours: Amount = Field(
        description="Hours that these nodes existed in the 24 hours before, added up over the "
        "nodes."
    )


class CapacityPoolStatus(Model):
    """The observed state of the pool; only the operator writes here."""

    types: ShortText | None = Field(None, description="The instance types in one line, for tables.")
    zones: ShortText | None = Field(None, description="The zones in one line, for tables.")
    nodes: Count | None = Field(None, description="Nodes in the pool now.")
    workers: Count | None = Field(
        None,
        description="Workers of all jobs in the pool now. Absent if operators serve single "
        "namespaces, because none of them sees all jobs.",
    )
    node: PoolNode | None = Field(
        None,
        description="The resources of one node, as last seen. Absent until the pool has had a "
        "node.",
    )
    empty_since: Time | None = Field(
        None,
        description="Time since which the pool has no node. A discovered pool that nobody has "
        "changed is deleted after a week without nodes.",
    )
    price: Price | None = Field(None, description="The price of a node, and its history.")
    unpriced: LongText | None = Field(
        None,
        description="The command with which you can set the price of a node. Absent while the "
        "price is known.",
    )
    available: ConditionStatus | None = Field(
        None,
        description="Whether the pool can provide more nodes: True, False (it had none when "
        "asked) or Unknown.",
    )
    retry_at: Time | None = Field(
        None, description="Time at which the operator asks a dry pool again."
    )
    provision_seconds: Amount | None = Field(
        None, description="Time until a new node is there, 95th percentile, in seconds."
    )
    interruptions_24h: Count | None = Field(
        None,
        alias="interruptions24h",
        description="Number of interruptions in the last 24 hours; nodes that were lost together "
        "count once.",
    )
    interruptions: Annotated[tuple[PoolInterruption, ...], Field(max_length=64)] | None = Field(
        None,
        description="The interruptions of the last 24 hours and the last one before them, oldest "
        "first.",
    )
    interruptions_per_hour: Amount | None = Field(
        None,
        description="Expected interruptions of a node per hour, from what this pool and similar "
        "ones have shown. Updated when it has changed by a quarter.",
    )
    lifetimes: LongText | None = Field(
        None,
        description="Age of nodes when they were taken away. For each age: how many nodes were "
        "taken away before the next age, of how many that reached it, e.g. 0m 3/12, 15m 1/9. "
        "Nodes that left for other reasons count for the time that they existed. The oldest nodes "
        "fade out.",
    )
    as_of: Time | None = Field(None, description="Time up to which this status counts.")


class CapacityPool(Model):
    """One offer of the market: nodes of some types, in some zones, of one capacity type."""

    api_version: Literal["spotrun.dev/v1alpha1"] = Field(description="The version of the API.")
    kind: Literal["CapacityPool"] = Field(description="The kind of object.")
    metadata: ObjectMeta = Field(description="Name, labels and annotations.")
    spec: CapacityPoolSpec = Field(
        description="The nodes that belong to the pool, whether or not any exist now."
    )
    status: CapacityPoolStatus | None = Field(
        None, description="The observed state of the pool; only the operator writes here."
    )
