"""The workers: their number, their template, and how their number follows utilization."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.amounts import Amount, Ratio
from spotrun.api.field_types.bounded import PercentOf
from spotrun.api.field_types.bounded import Workers as NumWorkers
from spotrun.api.field_types.text_values import Duration
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice
from spotrun.api.spec.template import PodTemplate


def _whole_replicas(workers: "Workers") -> bool:
    sizes = (workers.min, workers.max, *(workers.sizes or ()))
    return all(size % workers.per_replica == 0 for size in sizes)


class Inject(Choice):
    """The way in which spotrun_trainer comes into the container that trains."""

    AUTO = (
        "Auto",
        (
            "an init container adds spotrun_trainer of the operator's version, unless the "
            "installation names no image for that, or names the job's image as its own for "
            "training"
        ),
    )
    NEVER = "Never", "the image contains spotrun_trainer"


class Workers(Model):
    """The workers of a job: the least and the most, and the template of each."""

    min: NumWorkers = Field(
        1,
        description="Default 1. The minimum number of workers: with fewer the job does not train, "
        "but waits.",
    )
    max: NumWorkers = Field(1, description="Default 1. The maximum number of workers.")
    replicas: Annotated[int, Field(ge=0, le=10_000)] = Field(
        1,
        description="Default 1. The wanted number of workers, clamped to [min, max]. In mode Auto "
        "the operator writes the number that utilization justifies. In mode Manual you, `kubectl "
        "scale` or an autoscaler write it.",
    )
    sizes: Annotated[tuple[NumWorkers, ...], Field(min_length=1, max_length=64)] | None = Field(
        None,
        description="The only allowed numbers of workers, ascending, e.g. [2, 4, 8]. Default: the "
        "numbers at which a step gets shorter.",
    )
    per_replica: Annotated[int, Field(ge=1, le=1024)] = Field(
        1,
        description="Default 1. The number of workers that together hold one copy of the model. "
        "min, max and sizes must be multiples of it. Can be changed only while the job is "
        "suspended.",
    )
    processes: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None,
        description="Training processes per worker, the same on all workers. Default: the GPU "
        "limit of the trainer container, else the number of devices that it claims (DRA), else 1. "
        "Can be changed only while the job is suspended.",
    )
    inject: Inject = Field(
        Inject.AUTO,
        description="Default Auto: how spotrun_trainer gets into the container that trains. "
        f"{Inject.explained()} Can be changed only while the job is suspended.",
    )
    template: PodTemplate = Field(
        description="The pod template of every worker. It has one container, or one that is "
        "called `trainer`. Give no command: the operator runs torchrun, and args hold the script "
        "and its arguments. Can be changed only while the job is suspended."
    )

    rules = (
        Rule(
            cel="self.min <= self.max",
            message="min must not be above max: raise max, which defaults to 1, or lower min",
            holds=lambda w: w.min <= w.max,
        ),
        Rule(
            cel="!has(self.sizes) || (self.sizes.isSorted()"
            " && self.sizes.all(a, self.sizes.exists_one(b, a == b)))",
            message="sizes must ascend, each number once",
            holds=lambda w: list(w.sizes or ()) == sorted(set(w.sizes or ())),
        ),
        Rule(
            cel="!has(self.sizes) || self.sizes.all(s, self.min <= s && s <= self.max)",
            message="sizes must lie between min and max, which default to 1",
            holds=lambda w: all(w.min <= size <= w.max for size in w.sizes or ()),
        ),
        Rule(
            cel="self.min % self.perReplica == 0 && self.max % self.perReplica == 0"
            " && (!has(self.sizes) || self.sizes.all(s, s % self.perReplica == 0))",
            message="min, max and sizes must be multiples of perReplica, because only whole "
            "copies of the model train; min and max default to 1",
            holds=_whole_replicas,
        ),
    )


class ScalingMode(Choice):
    """The author of workers.replicas."""

    AUTO = "Auto", "the operator writes workers.replicas, from utilization and measured benefit"
    MANUAL = "Manual", "you, kubectl scale or your autoscaler write workers.replicas"


class TargetResource(Choice):
    """The resource whose utilization has a target."""

    GPU = "GPU", "the share of a step in which the GPU computes"
    CPU = "CPU", "the used share of the workers' requests"
    MEMORY = "Memory", "the used share of the workers' requests"


class Target(Model):
    """A target utilization."""

    resource: TargetResource = Field(
        description=f"The resource that is measured. {TargetResource.explained()}"
    )
    utilization_percent: PercentOf = Field(
        70,
        description="Default 70, in percent. A higher utilization than this asks for more workers.",
    )
    tolerance_percent: Annotated[int, Field(ge=0, le=99)] = Field(
        10,
        description="Default 10, in percent of the target. The number of workers does not change "
        "while utilization is within this range of the target.",
    )


class Scaling(Model):
    """The way in which the number of workers follows their utilization."""

    mode: ScalingMode | None = Field(
        None,
        description=f"{ScalingMode.explained()} Default: Auto when workers.min is below "
        "workers.max.",
    )
    targets: Annotated[tuple[Target, ...], Field(min_length=1, max_length=3)] | None = Field(
        None,
        description="Target utilizations; the target that asks for the most workers counts. "
        "Default: GPU if workers have one, else CPU, at 70 percent.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["resource"],
        },
    )
    min_efficiency: Ratio = Field(
        Ratio("0.6"),
        description='Default "0.6". The minimum share of the added workers that must appear as '
        "added throughput. An increase that brings less is undone.",
    )
    hour_worth_usd: Amount | None = Field(
        None,
        description="What it is worth to you that the job ends one hour earlier, in USD. The "
        "operator then chooses the size at which work costs least, including this value, and "
        'ignores targets; "0" chooses the cheapest size. Default: only targets and minEfficiency '
        "decide.",
    )
    scale_up_after: Duration = Field(
        Duration("2m"),
        description="Default 2m. How long more workers must be justified before the number rises.",
    )
    scale_down_after: Duration = Field(
        Duration("10m"),
        description="Default 10m. How long fewer workers must suffice before the number falls.",
    )

    rules = (
        Rule(
            cel="!has(self.targets) || self.targets.all(a,"
            " self.targets.exists_one(b, a.resource == b.resource))",
            message="targets must name each resource at most once",
            holds=lambda s: len({t.resource for t in s.targets or ()}) == len(s.targets or ()),
        ),
    )
