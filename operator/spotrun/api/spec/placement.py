"""The nodes that workers may use, and the most that spot capacity may cost."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.bounded import LabelKey, PercentOf
from spotrun.api.field_types.text_values import Duration
from spotrun.api.model import Model, Rule
from spotrun.api.names import ZONE_LABELS, Choice
from spotrun.api.spec.preempts import Preempts
from spotrun.api.spec.selector import LabelSelector


class CapacityPolicy(Choice):
    """The capacity types that a job uses."""

    SPOT = "Spot", "only capacity that can be taken away"
    ON_DEMAND = "OnDemand", "only capacity that stays"
    MIXED = (
        "Mixed",
        "spot first; on-demand where onDemandBase, fallbackAfter or a deadline needs it",
    )


class Homogeneous(Choice):
    """The properties that the workers of a world have in common."""

    ACCELERATOR = "Accelerator", "one GPU model, because the slowest worker sets the pace of a step"
    NONE = "None", "nothing; different GPU models may work together"


class Zones(Choice):
    """The number of zones that a world may span."""

    AUTO = "Auto", "several zones only if that is cheaper, with the traffic between zones counted"
    SINGLE = "Single", "one zone"
    ANY = "Any", "any number of zones"


class ReplicaTopology(Model):
    """The part of the cluster that holds a whole replica, named by a label of nodes."""

    preferred: LabelKey | None = Field(
        None,
        description="A label of nodes. Nodes with the same value of it are requested first. If "
        "they have no capacity, the whole replica moves, or its missing workers come from "
        "elsewhere if that costs less.",
    )
    required: LabelKey | None = Field(
        None,
        description="A label of nodes. Only nodes with the same value of it are used. If they "
        "have no capacity, the whole replica moves.",
    )

    rules = (
        Rule(
            cel="has(self.preferred) != has(self.required)",
            message="replicaTopology takes either preferred or required: name one label of nodes, "
            "like topology.kubernetes.io/zone",
            holds=lambda t: (t.preferred is None) != (t.required is None),
        ),
    )

    @property
    def key(self) -> str:
        """The label of nodes."""
        return str(self.required or self.preferred)

    @property
    def is_required(self) -> bool:
        """Whether nodes with another value of the label are excluded."""
        return self.required is not None


ONE_ZONE = ReplicaTopology(preferred=LabelKey(ZONE_LABELS[0]))
"""The default: traffic between zones is slow, and most clouds charge for it."""


class Lend(Model):
    """The workers that lend their place to pods of higher priority, and return after them."""

    priority_class_name: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="The PriorityClass of lent workers. It must be lower than that of the pods "
        "that may take their place: the scheduler then preempts lent workers for these pods."
    )
    at_least: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None,
        description="The number of workers that are not lent. They keep the PriorityClass of "
        "workers.template. Default: workers.min.",
    )


class Placement(Model):
    """The nodes that workers may use."""

    capacity: CapacityPolicy = Field(
        CapacityPolicy.MIXED, description=f"Default Mixed. {CapacityPolicy.explained()}"
    )
    on_demand_base: Annotated[int, Field(ge=0, le=10_000)] = Field(
        0,
        description="Default 0. The number of workers that always run on on-demand capacity; rank "
        "0 is one of them.",
    )
    homogeneous: Homogeneous = Field(
        Homogeneous.ACCELERATOR,
        description="Default Accelerator: the property that workers have in common. "
        f"{Homogeneous.explained()}",
    )
    zones: Zones = Field(
        Zones.AUTO,
        description=f"Default Auto: the zones that a world may span. {Zones.explained()}",
    )
    replica_topology: ReplicaTopology | None = Field(
        None,
        description="The topology domain that the workers of one replica share, if "
        "workers.perReplica is above 1. Default: preferred topology.kubernetes.io/zone.",
    )
    max_price_percent: PercentOf | None = Field(
        None,
        description="The maximum price of spot, in percent of the on-demand price of the same "
        "pool. Default: no limit. It does not exclude pools of unknown price.",
    )
    max_percent_per_pool: PercentOf | None = Field(
        None,
        description="The maximum share of the workers in one pool, in percent. Default: no limit. "
        "It never keeps a job below workers.min.",
    )
    max_percent_per_zone: PercentOf | None = Field(
        None,
        description="The maximum share of the workers in one zone, in percent. Default: no limit. "
        "It never keeps a job below workers.min.",
    )
    fallback_after: Duration = Field(
        Duration("10m"),
        description="Default 10m. With capacity Mixed, the time without available spot after "
        "which on-demand is used. On-demand is used at once if no spot pool is known or declared. "
        "With a deadline this field counts only until the number of steps is known; then the "
        "deadline decides.",
    )
    give_back_after: Duration = Field(
        Duration("20m"),
        description="Default 20m. Nodes that no allowed size can use, because others do not come, "
        "are given back when no node has come for this time; later if nodes usually take longer, "
        "or if work would have to be done again. The operator asks for all nodes again as soon as "
        "enough nodes of the cluster are free, or after 10 min; after repeated failures, after up "
        "to 80 min.",
    )
    lend: Lend | None = Field(
        None,
        description="Lends all workers above a number to pods of higher priority. Default: none. "
        "A change applies to workers that are created afterwards.",
    )
    pool_selector: LabelSelector | None = Field(
        None, description="Use only CapacityPools with these labels. Default: all that fit."
    )

    preempts: Preempts = Field(
        Preempts.NEVER,
        description="Default Never: what the job takes from other jobs while it lacks nodes for "
        f"its smallest world. {Preempts.explained()} Jobs in queues of Kueue neither preempt nor "
        "give way.",
    )

    rules = (
        Rule(
            cel="self.capacity != 'Spot' || self.onDemandBase == 0",
            message="onDemandBase asks for on-demand workers, which capacity: Spot excludes: "
            "choose capacity: Mixed or leave onDemandBase out",
            holds=lambda p: p.capacity is not CapacityPolicy.SPOT or p.on_demand_base == 0,
        ),
        Rule(
            cel="self.capacity != 'OnDemand' || !has(self.maxPricePercent)",
            message="maxPricePercent limits what spot may cost, and capacity: OnDemand uses none: "
            "leave one of them out",
            holds=lambda p: (
                p.capacity is not CapacityPolicy.ON_DEMAND or p.max_price_percent is None
            ),
        ),
    )

    @property
    def topology(self) -> ReplicaTopology:
        """The nodes that the workers of one replica share: those given, or else one zone."""
        return self.replica_topology or ONE_ZONE
