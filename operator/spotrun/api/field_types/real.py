"""Numbers that manifests contain as text and that are compared, not added: bounds, goals."""

import math

from typing_extensions import override

from spotrun.api.field_types.text_values import Text


class Real(Text):
    """A finite number, also with an exponent, as bounds of learning rates are written."""

    __slots__ = ()
    pattern = r"-?[0-9]{1,15}(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?"
    max_length = 40
    hint = 'must be a number in quotes, like "0.1" or "1e-4"'

    @property
    def number(self) -> float:
        """The number."""
        return float(self)

    @override
    def holds(self) -> bool:
        return math.isfinite(float(self))
