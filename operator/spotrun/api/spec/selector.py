"""The standard label selector."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.bounded import LabelKey, LabelValue
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice

Labels = Annotated[dict[str, LabelValue], Field(max_length=64)]


class Operator(Choice):
    """The comparison of a label with the values."""

    IN = "In", "the label has one of the values"
    NOT_IN = "NotIn", "the label is absent or has none of the values"
    EXISTS = "Exists", "the label is there"
    DOES_NOT_EXIST = "DoesNotExist", "the label is absent"


class Expression(Model):
    """One requirement on one label."""

    key: LabelKey = Field(description="The label that is compared.")
    operator: Operator = Field(description=f"The comparison. {Operator.explained()}")
    values: Annotated[tuple[LabelValue, ...], Field(max_length=64)] | None = Field(
        None,
        description="The values for the comparison: at least one for In and NotIn, none otherwise.",
    )

    rules = (
        Rule(
            cel="!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() "
            "> 0)",
            message="operator In or NotIn needs values: name at least one",
            holds=lambda e: e.operator not in (Operator.IN, Operator.NOT_IN) or bool(e.values),
        ),
        Rule(
            cel="self.operator in ['In', 'NotIn'] || !has(self.values) || self.values.size() == 0",
            message="operator Exists or DoesNotExist takes no values: leave them out",
            holds=lambda e: e.operator in (Operator.IN, Operator.NOT_IN) or not e.values,
        ),
    )

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether an object with these labels meets the requirement."""
        present = self.key in labels
        match self.operator:
            case Operator.EXISTS:
                return present
            case Operator.DOES_NOT_EXIST:
                return not present
            case Operator.IN:
                return present and labels[self.key] in (self.values or ())
            case _:
                return not present or labels[self.key] not in (self.values or ())


class LabelSelector(Model):
    """A selection of objects by labels; all requirements must hold, an empty one selects all."""

    match_labels: Labels | None = Field(
        None, description="Labels an object must have, each with exactly this value."
    )
    match_expressions: Annotated[tuple[Expression, ...], Field(max_length=32)] | None = Field(
        None, description="Further requirements, all of which must be met."
    )

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        wanted = (self.match_labels or {}).items()
        return all(labels.get(key) == value for key, value in wanted) and all(
            expression.matches(labels) for expression in self.match_expressions or ()
        )
