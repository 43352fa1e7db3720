"""The stages of a training: each with arguments and parameters of its own."""

from typing import Annotated, Any

from pydantic import Field

from spotrun.api.field_types.bounded import DnsLabel
from spotrun.api.model import Model, Rule
from spotrun.api.spec.stop_when import MetricStop

MOST_STAGES = 16
_NAME = "^[A-Za-z_][A-Za-z0-9_]{0,62}$"
_Argument = Annotated[str, Field(max_length=1024)]
_Value = Annotated[str, Field(max_length=256)]


class Stage(Model):
    """A stage: it continues from the checkpoint of the stage before, with its own values."""

    name: DnsLabel = Field(description="The name, which scripts read as `run.stage.name`.")
    args: Annotated[tuple[_Argument, ...], Field(max_length=64)] | None = Field(
        None,
        description="Arguments that this stage adds after those of the template. If the same "
        "argument is in both, a parser such as argparse takes the last one.",
    )
    params: Annotated[dict[str, _Value], Field(max_length=32)] | None = Field(
        None,
        description="Values by name for `spotrun_trainer.params()`, in quotes. A number, true or "
        "false is read as such. They replace a TuningJob's values of the same name.",
    )
    until_step: Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None = Field(
        None,
        description="The last step of this stage, counted from the beginning of the training. "
        "Default: the stage ends by stopWhen; the last stage ends with the script.",
    )
    stop_when: MetricStop | None = Field(
        None, description="The metric that ends this stage, before untilStep if that is given."
    )

    rules = (
        Rule(
            cel=f"!has(self.params) || self.params.all(k, k.matches('{_NAME}'))",
            message="names of params are letters, digits and _, beginning with a letter, at most "
            "63, as in Python",
            holds=lambda s: all(_is_name(key) for key in s.params or ()),
        ),
    )


Stages = Annotated[tuple[Stage, ...], Field(min_length=1, max_length=MOST_STAGES)]


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier() and len(text) <= 63


def _ends_ascend(spec: Any) -> bool:  # noqa: ANN401 - it has stages
    ends = [one.until_step for one in spec.stages or () if one.until_step is not None]
    return ends == sorted(set(ends))


def _all_but_the_last_end(spec: Any) -> bool:  # noqa: ANN401 - it has stages
    return all(one.until_step or one.stop_when for one in (spec.stages or ())[:-1])


_ENDS = "self.stages.filter(s, has(s.untilStep)).map(s, s.untilStep)"

STAGE_RULES = (
    Rule(
        cel="!has(self.stages) || self.stages.all(a, self.stages.exists_one(b, a.name == b.name))",
        message="stages must have different names: rename one of them",
        holds=lambda s: len({one.name for one in s.stages or ()}) == len(s.stages or ()),
    ),
    Rule(
        cel=f"!has(self.stages) || ({_ENDS}.isSorted()"
        f" && {_ENDS}.all(a, {_ENDS}.exists_one(b, a == b)))",
        message="untilStep must grow from stage to stage: it counts from the beginning of the "
        "training, not of the stage",
        holds=_ends_ascend,
    ),
    Rule(
        cel="!has(self.stages) || self.stages.filter(s, !has(s.untilStep) && !has(s.stopWhen))"
        ".all(s, s.name == self.stages[self.stages.size() - 1].name)",
        message="each stage but the last needs untilStep or stopWhen: otherwise the next one never "
        "begins",
        holds=_all_but_the_last_end,
    ),
    Rule(
        cel="!has(self.stages) || has(self.checkpoint)",
        message="stages need a checkpoint, from which the next one begins: give checkpoint.volume "
        "or checkpoint.uri",
        holds=lambda s: s.stages is None or s.checkpoint is not None,
    ),
)
"""The rules of a spec that has `stages`."""
