"""The costs of nodes that you own, from which a pool's price per hour is computed."""

from pydantic import Field
from typing_extensions import override

from spotrun.api.field_types.amounts import Amount, PositiveAmount, Ratio
from spotrun.api.model import Model, Rule


class YearsOfUse(Amount):
    """The years for which a node is used before it is replaced."""

    __slots__ = ()
    further_cel = "double(self) >= 0.5 && double(self) <= 20.0"
    hint = 'must be years from 0.5 to 20 in quotes, like "4"'

    @override
    def holds(self) -> bool:
        return 1 <= 2 * self.decimal <= 40


class Kilowatts(Amount):
    """The electric power of a node."""

    __slots__ = ()
    further_cel = "double(self) <= 200.0"
    hint = 'must be kilowatts of one node, at most 200, in quotes, like "10.2"; not watts'

    @override
    def holds(self) -> bool:
        return self.decimal <= 200


class UsdPerKwh(Amount):
    """The price of electricity."""

    __slots__ = ()
    further_cel = "double(self) <= 5.0"
    hint = 'must be USD per kWh, at most 5, in quotes, like "0.14"; not cents'

    @override
    def holds(self) -> bool:
        return self.decimal <= 5


class PowerUsageEffectiveness(Amount):
    """The power of a data center divided by that of its computers."""

    __slots__ = ()
    further_cel = "double(self) >= 1.0 && double(self) <= 5.0"
    hint = (
        'must be a power usage effectiveness from 1 to 5 in quotes, like "1.3": the power of the '
        "data center divided by that of its computers"
    )

    @override
    def holds(self) -> bool:
        return 1 <= self.decimal <= 5


class OwnNodes(Model):
    """The costs of one node of a pool to its owner; all amounts are of one node."""

    purchase_usd: PositiveAmount = Field(
        description="Purchase price of one node, in USD, including its share of network and racks."
    )
    years: YearsOfUse = Field(
        description="Years of use; the purchase price is spread evenly over them."
    )
    power_kw: Kilowatts | None = Field(
        None,
        description="Mean power of one node over all hours, busy or not, in kW. Default: none.",
    )
    usd_per_kwh: UsdPerKwh | None = Field(
        None, description="Price of electricity, in USD per kWh. Required with powerKw."
    )
    pue: PowerUsageEffectiveness = Field(
        PowerUsageEffectiveness("1"),
        description="Default 1: power usage effectiveness. The node's power is multiplied by it, "
        "for cooling and losses.",
    )
    usd_per_month: Amount = Field(
        Amount("0"),
        description="Default 0: staff, hosting, support and interest for one node, in USD per "
        "month.",
    )
    utilization: Ratio = Field(
        Ratio("1"),
        description="Default 1: the share of all hours in which jobs use a node. The used hours "
        "also pay for the unused ones.",
    )

    rules = (
        Rule(
            cel="has(self.powerKw) == has(self.usdPerKwh)",
            message="powerKw and usdPerKwh go together: give both, or neither",
            holds=lambda own: (own.power_kw is None) == (own.usd_per_kwh is None),
        ),
    )
