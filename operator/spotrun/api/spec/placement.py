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
    MIXED = "Mixed", "spot first, on-demand where the rules ask for it"


class Homogeneous(Choice):
    """The properties that the workers of a world have in common."""

    ACCELERATOR = "Accelerator", "one GPU model, for a step runs at its slowest worker"
    NONE = "None", "nothing; different GPU models may work together"


class Zones(Choice):
    """The number of zones that a world may span."""

    AUTO = "Auto", "several only when that is cheaper with traffic between zones counted"
    SINGLE = "Single", "one"
    ANY = "Any", "as many as come"


class ReplicaTopology(Model):
    """The part of the cluster that holds a whole replica, named by a label of nodes."""

    preferred: LabelKey | None = Field(
        None,
        description="Nodes of one value of this label are asked for first. Where they have no "
        "capacity the whole replica moves, or its missing workers come from elsewhere if that "
        "costs less.",
    )
    required: LabelKey | None = Field(
        None,
        description="Only nodes of one value of this label will do. Where they have no capacity "
        "the whole replica moves.",
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
        """Whether nodes of another value of the label will not do."""
        return self.required is not None


ONE_ZONE = ReplicaTopology(preferred=LabelKey(ZONE_LABELS[0]))
"""The default: traffic between zones is slow, and most clouds charge for it."""


class Lend(Model):
    """The workers that give their place to pods of higher priority, and come back after them."""

    priority_class_name: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="The PriorityClass of workers that are lent: lower than that of the pods that "
        "may take their place. The scheduler takes it for them."
    )
    at_least: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None,
        description="The number of workers that are not lent; they have the PriorityClass of "
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
        "0 is one.",
    )
    homogeneous: Homogeneous = Field(
        Homogeneous.ACCELERATOR,
        description="Default Accelerator: the property that workers have in common. "
        f"{Homogeneous.explained()}",
    )
    zones: Zones = Field(
        Zones.AUTO, description=f"Default Auto: zones a world spans. {Zones.explained()}"
    )
    replica_topology: ReplicaTopology | None = Field(
        None,
        description="The nodes that the workers of one replica share, where workers.perReplica is "
        "above 1. Default: preferred topology.kubernetes.io/zone.",
    )
    max_price_percent: PercentOf | None = Field(
        None,
        description="The most to pay for spot, in percent of the same pool's on-demand price. "
        "Default: no limit. Pools of unknown price are not excluded by it.",
    )
    max_percent_per_pool: PercentOf | None = Field(
        None,
        description="The largest share of the workers in one pool, in percent. Default: no limit. "
        "It never keeps a job below workers.min.",
    )
    max_percent_per_zone: PercentOf | None = Field(
        None,
        description="The largest share of the workers in one zone, in percent. Default: no limit. "
        "It never keeps a job below workers.min.",
    )
    fallback_after: Duration = Field(
        Duration("10m"),
        description="Default 10m. The time without available spot after which on-demand is used, "
        "with capacity Mixed; at once when no spot pool is known or declared. A deadline decides "
        "by itself once it is known how many steps there are.",
    )
    give_back_after: Duration = Field(
        Duration("20m"),
        description="Default 20m. Nodes that no allowed size can use, for others do not come, are "
        "given back when none has come for so long; later where nodes usually take longer, or work "
        "would have to be done again. All are asked for again as soon as enough nodes of the "
        "cluster are free, or after 10 min, and while that is in vain after up to 80.",
    )
    lend: Lend | None = Field(
        None,
        description="Workers beyond a number are lent to pods of higher priority. Default: none. "
        "A change counts for workers that are made from then on.",
    )
    pool_selector: LabelSelector | None = Field(
        None, description="Use only CapacityPools with these labels. Default: all that fit."
    )

    preempts: Preempts = Field(
        Preempts.NEVER,
        description="Default Never: what the job may take while its smallest world lacks nodes. "
        f"{Preempts.explained()} Jobs of Kueue's queues neither take nor give.",
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
