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
            "an init container brings it, of the operator's version, unless the installation names "
            "no image for that, or names the job's image as its own for training"
        ),
    )
    NEVER = "Never", "the image has it"


class Workers(Model):
    """The workers of a job: the least and the most, and the template of each."""

    min: NumWorkers = Field(
        1, description="Default 1. The job never trains with fewer workers; it waits instead."
    )
    max: NumWorkers = Field(1, description="Default 1. The job never trains with more workers.")
    replicas: Annotated[int, Field(ge=0, le=10_000)] = Field(
        1,
        description="Default 1. The wanted number of workers, clamped to [min, max]. In mode "
        "Auto the "
        "operator writes here the number that utilization justifies; in mode Manual it is yours, "
        "`kubectl scale`'s or an autoscaler's.",
    )
    sizes: Annotated[tuple[NumWorkers, ...], Field(min_length=1, max_length=64)] | None = Field(
        None,
        description="The only numbers of workers allowed, ascending, e.g. [2, 4, 8]. "
        "Default: those at which a step gets shorter.",
    )
    per_replica: Annotated[int, Field(ge=1, le=1024)] = Field(
        1,
        description="Default 1. Workers that together hold one copy of the model; min, max and "
        "sizes "
        "are multiples of it. Changes only while the job is suspended.",
    )
    processes: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None,
        description="Training processes per worker, the same on all. Default: the trainer "
        "container's GPU limit, else the devices that it claims (DRA), else 1. Changes only while "
        "the job is suspended.",
    )
    inject: Inject = Field(
        Inject.AUTO,
        description=f"Default Auto. {Inject.explained()} Changes only while the job is suspended.",
    )
    template: PodTemplate = Field(
        description="The template of every worker: a pod template with one container, or one "
        "called `trainer`. Give no command there: the operator runs torchrun, and args hold the "
        "script and its arguments. Changes only while the job is suspended."
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
            message="min, max and sizes must be multiples of perReplica, "
            "for only whole copies of the model train; min and max default to 1",
            holds=_whole_replicas,
        ),
    )


class ScalingMode(Choice):
    """The author of the number of workers."""

    AUTO = "Auto", "the operator writes workers.replicas, from utilization and measured benefit"
    MANUAL = "Manual", "you, kubectl scale or an autoscaler of yours write workers.replicas"


class TargetResource(Choice):
    """The resource whose utilization is kept."""

    GPU = "GPU", "the share of a step in which the GPU computes"
    CPU = "CPU", "share of the workers' requests"
    MEMORY = "Memory", "share of the workers' requests"


class Target(Model):
    """A utilization to keep."""

    resource: TargetResource = Field(
        description=f"The resource that is measured. {TargetResource.explained()}"
    )
    utilization_percent: PercentOf = Field(
        70, description="Default 70, in percent. More utilization than this asks for more workers."
    )
    tolerance_percent: Annotated[int, Field(ge=0, le=99)] = Field(
        10,
        description="Default 10, in percent of the target. No change while utilization is this "
        "near.",
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
        description="Utilizations to keep; the one that asks for most workers counts. "
        "Default: GPU where workers have one, else CPU, at 70 percent.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["resource"],
        },
    )
    min_efficiency: Ratio = Field(
        Ratio("0.6"),
        description='Default "0.6". The share of added workers that must show up as added '
        "throughput; a growth that brings less is taken back.",
    )
    hour_worth_usd: Amount | None = Field(
        None,
        description="The worth to you of finishing an hour earlier, in USD: the size is chosen at "
        'which work costs least, this included, and targets do not matter; "0" gives the '
        "cheapest. Default: targets and minEfficiency alone decide.",
    )
    scale_up_after: Duration = Field(
        Duration("2m"), description="Default 2m. The time for which more workers must be justified."
    )
    scale_down_after: Duration = Field(
        Duration("10m"), description="Default 10m. The time for which fewer workers must suffice."
    )

    rules = (
        Rule(
            cel="!has(self.targets) || self.targets.all(a,"
            " self.targets.exists_one(b, a.resource == b.resource))",
            message="targets must name each resource at most once",
            holds=lambda s: len({t.resource for t in s.targets or ()}) == len(s.targets or ()),
        ),
    )
