"""The parameters of a search, and the values that they may have."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.real import Real
from spotrun.api.model import Model, Rule
from spotrun.api.tuning.parameter_name import ParameterName

MOST_PARAMETERS = 20
MOST_CHOICES = 64
_Choice = Annotated[str, Field(min_length=1, max_length=128)]
_Choices = Annotated[tuple[_Choice, ...], Field(min_length=1, max_length=MOST_CHOICES)]
_Whole = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class Uniform(Model):
    """A number between two bounds; all values are equally likely."""

    min: Real = Field(description="The smallest value.")
    max: Real = Field(description="The largest value.")

    rules = (
        Rule(
            cel="double(self.min) < double(self.max)",
            message="the range is empty: give a min below the max",
            holds=lambda u: u.min.number < u.max.number,
        ),
    )


class LogUniform(Model):
    """A number between two bounds above 0, whose logarithm is uniformly distributed."""

    min: Real = Field(description="The smallest value, above 0.")
    max: Real = Field(description="The largest value.")

    rules = (
        Rule(
            cel="double(self.min) > 0.0 && double(self.min) < double(self.max)",
            message="logUniform needs a min above 0 and below the max; for a range that has 0 in "
            "it use uniform",
            holds=lambda u: 0 < u.min.number < u.max.number,
        ),
    )


class Int(Model):
    """A whole number between two bounds."""

    min: _Whole = Field(description="The smallest value.")
    max: _Whole = Field(description="The largest value.")
    step: Annotated[int, Field(ge=1, le=2**31 - 1)] = Field(
        1, description="Default 1: the distance between two values, counted from min."
    )

    rules = (
        Rule(
            cel="self.min < self.max",
            message="the range is empty: give a min below the max",
            holds=lambda i: i.min < i.max,
        ),
    )


class Categorical(Model):
    """One of several values."""

    choices: _Choices = Field(
        description="The values, as text. The script gets a value that is a number, true or false "
        "as such.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )

    rules = (
        Rule(
            cel="self.choices.all(a, self.choices.exists_one(b, a == b))",
            message="choices must name each value once",
            holds=lambda c: len(set(c.choices)) == len(c.choices),
        ),
    )


class When(Model):
    """The condition under which a parameter exists."""

    parameter: ParameterName = Field(
        description="The name of another parameter, which comes before this one in the list."
    )
    values: _Choices = Field(
        description="The parameter exists if that parameter has one of these values.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class Parameter(Model):
    """A parameter of the training. Give exactly one of uniform, logUniform, int, categorical."""

    name: ParameterName = Field(
        description="The name under which the script reads it: `params()[name]`, or "
        "`$(params.name)` in args."
    )
    uniform: Uniform | None = Field(None, description="A number; all values are equally likely.")
    log_uniform: LogUniform | None = Field(
        None, description="A number whose logarithm is uniformly distributed, e.g. a learning rate."
    )
    int: Int | None = Field(None, description="A whole number.")
    categorical: Categorical | None = Field(None, description="One of several values.")
    when: Annotated[tuple[When, ...], Field(max_length=4)] | None = Field(
        None,
        description="Conditions under which the parameter exists; all of them must hold. Default: "
        "it always exists.",
    )

    rules = (
        Rule(
            cel="[has(self.uniform), has(self.logUniform), has(self.int), has(self.categorical)]"
            ".exists_one(given, given)",
            message="a parameter needs exactly one of uniform, logUniform, int and categorical",
            holds=lambda p: len({"uniform", "log_uniform", "int", "categorical"} & _given(p)) == 1,
        ),
    )

    @property
    def is_continuous(self) -> bool:
        """Whether it has infinitely many values."""
        return self.uniform is not None or self.log_uniform is not None


def _given(parameter: Parameter) -> set[str]:
    return {name for name in parameter.model_fields_set if getattr(parameter, name) is not None}


Parameters = Annotated[
    tuple[Parameter, ...],
    Field(
        min_length=1,
        max_length=MOST_PARAMETERS,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ),
]
