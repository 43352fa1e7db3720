"""Numbers that manifests contain as text: money, ratios, quantities; exact, never floats."""

import re
from decimal import Decimal
from typing import Self

from typing_extensions import override

from spotrun.api.field_types.text_values import Text


def whole(text: str) -> int | None:
    """Return a whole number from plain digits; None for other texts, and for too many digits."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


class Amount(Text):
    """A decimal number of at least zero: never a float, because money is computed exactly."""

    __slots__ = ()
    pattern = r"[0-9]{1,15}(\.[0-9]{1,12})?"  # a node may have TiB of memory, in bytes
    max_length = 28
    hint = 'must be a decimal number of at least 0 in quotes, like "12.50"'

    @property
    def decimal(self) -> Decimal:
        """The number."""
        return Decimal(self)

    @classmethod
    def of(cls, number: Decimal) -> Self:
        """Write a number in plain digits, to the twelfth decimal place."""
        return cls(f"{round(number, 12).normalize():f}")


class SignedAmount(Amount):
    """A decimal number that may be negative, like savings."""

    __slots__ = ()
    pattern = rf"-?{Amount.pattern}"
    max_length = Amount.max_length + 1
    hint = 'must be a decimal number in quotes, like "-12.50"'


class Measured(Text):
    """A value that a script has measured: a number, NaN or an infinity."""

    __slots__ = ()
    pattern = r"-?([0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?|Infinity)|NaN"
    max_length = 48
    hint = 'must be a number in quotes, like "0.31", "NaN", "Infinity" or "-Infinity"'


class PositiveAmount(Amount):
    """A decimal number above zero."""

    __slots__ = ()
    further_cel = "double(self) > 0.0"
    hint = 'must be a decimal number above 0 in quotes, like "12.50"'

    @override
    def holds(self) -> bool:
        return self.decimal > 0


class Ratio(Amount):
    """A decimal number above zero and at most one."""

    __slots__ = ()
    further_cel = "double(self) > 0.0 && double(self) <= 1.0"
    hint = 'must be a decimal number above 0 and at most 1 in quotes, like "0.6"'

    @override
    def holds(self) -> bool:
        return 0 < self.decimal <= 1


class Percent(Text):
    """A share in percent, as in tables: `43%`."""

    __slots__ = ()
    pattern = r"[0-9]{1,6}(\.[0-9])?%"
    max_length = 9
    hint = 'must be a percentage, like "43%"'

    @property
    def decimal(self) -> Decimal:
        """The number before the sign."""
        return Decimal(self[:-1])


_BINARY = {
    unit: Decimal(1024) ** (i + 1) for i, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
}
_SMALL = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_LARGE = {unit: Decimal(1000) ** (i + 1) for i, unit in enumerate(("k", "M", "G", "T", "P", "E"))}
_QUANTITY_UNIT = {"": Decimal(1), **_SMALL, **_LARGE, **_BINARY}


class Quantity(Text):
    """An amount of a resource as Kubernetes writes it: `500m`, `20Gi`."""

    __slots__ = ()
    pattern = r"[0-9]{1,15}(\.[0-9]{1,9})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
    max_length = 32
    hint = 'must be a quantity as Kubernetes writes it, like "500m" or "20Gi"'

    @property
    def value(self) -> Decimal:
        """The amount in the resource's own unit."""
        match = re.fullmatch(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)", self)
        assert match is not None, f"{self!r} has passed its own pattern"
        return Decimal(match[1]) * _QUANTITY_UNIT[match[2]]
