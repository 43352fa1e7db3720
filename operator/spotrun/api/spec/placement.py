"""The nodes that workers may use, and the most that spot capacity may cost."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.bounded import PercentOf
from spotrun.api.field_types.text_values import Duration
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice
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
    pool_selector: LabelSelector | None = Field(
        None, description="Use only CapacityPools with these labels. Default: all that fit."
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
