"""The TrainingJob: one PyTorch training run on interruptible capacity."""

from typing import Annotated, Literal

from pydantic import Field

from spotrun.api.field_types.bounded import ControllerName
from spotrun.api.meta import ObjectMeta
from spotrun.api.model import Model, Rule
from spotrun.api.spec.checkpoint import Checkpoint
from spotrun.api.spec.limits import Budget, Deadline, Failures, Finished, Idle, OnExceeded, OnMissed
from spotrun.api.spec.placement import CapacityPolicy, Placement
from spotrun.api.spec.schedule import Schedule
from spotrun.api.spec.stages import STAGE_RULES, Stages
from spotrun.api.spec.stop_when import MetricStop
from spotrun.api.spec.workers import Scaling, ScalingMode, Workers
from spotrun.api.status import TrainingJobStatus

_OUTLIVES_PODS_CEL = (
    "(has(self.checkpoint) && (has(self.checkpoint.uri) || (has(self.checkpoint.volume)"
    " && !has(self.checkpoint.volume.emptyDir))))"
)
_NAME_A_DURABLE_PLACE = "give checkpoint.volume with persistentVolumeClaim, nfs or csi"


def _outlives_pods(spec: "TrainingJobSpec") -> bool:
    return spec.checkpoint is not None and spec.checkpoint.outlives_pods


def _budget_can_suspend(spec: "TrainingJobSpec") -> bool:
    budget = spec.budget
    suspends = (
        budget is not None
        and budget.max_cost_usd is not None
        and budget.on_exceeded is OnExceeded.SUSPEND
    )
    return not suspends or _outlives_pods(spec)


def _deadline_fits_capacity(spec: "TrainingJobSpec") -> bool:
    wants_on_demand = spec.deadline is not None and spec.deadline.on_missed is OnMissed.ON_DEMAND
    return not wants_on_demand or spec.placement.capacity is not CapacityPolicy.SPOT


def _keeps_whole_replicas(spec: "TrainingJobSpec") -> bool:
    lend = spec.placement.lend
    return lend is None or (lend.at_least or 0) % spec.workers.per_replica == 0


class TrainingJobSpec(Model):
    """The wanted state of the job."""

    suspend: bool = Field(
        False,
        description="Default false. True removes all workers, after a checkpoint if the job has a "
        "place for one. Only users write this field; in trials of a TuningJob the operator does.",
    )
    priority: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)] = Field(
        0,
        description="Default 0. Of the TrainingJobs that wait for the same capacity, the one with "
        "the highest priority is first. This is not the priority of pods: for that see "
        "workers.template.spec.priorityClassName.",
    )
    managed_by: ControllerName | None = Field(
        None,
        description="The controller that runs the job. Default: this operator. With "
        "kueue.x-k8s.io/multikueue this operator only asks a queue for the job's workers, and "
        "Kueue has the job run in another cluster. With any other name this operator ignores the "
        "job. Cannot change.",
    )
    workers: Workers = Field(
        description="The number of workers, and the pod template of each worker."
    )
    scaling: Scaling = Field(
        Scaling(), description="The way in which the number of workers follows their utilization."
    )
    placement: Placement = Field(
        Placement(),
        description="The capacity that workers may use, and the most that spot may cost.",
    )
    deadline: Deadline | None = Field(
        None, description="The time by which the job should be finished. Default: no deadline."
    )
    budget: Budget | None = Field(
        None, description="The maximum cost of the job. Default: no limit."
    )
    schedule: Schedule | None = Field(
        None, description="The hours in which the job may run. Default: always."
    )
    idle: Idle | None = Field(
        None,
        description="What happens when workers are paid for but do almost nothing. Default: the "
        "condition Idle reports it, and the workers continue.",
    )
    checkpoint: Checkpoint | None = Field(
        None,
        description="The place for checkpoints, and their interval. Default: none; a job that "
        "loses all its workers then starts from the beginning. Can be changed only while the job "
        "is suspended.",
    )
    failures: Failures = Field(Failures(), description="What happens when the training fails.")
    stages: Stages | None = Field(
        None,
        description="The stages of the training. Each has its own args and params, and continues "
        "from the checkpoint of the stage before in the same pods. Default: none. Can be changed "
        "only while the job is suspended.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    stop_when: MetricStop | None = Field(
        None,
        description="The metric that ends the training early. The job then succeeds, with a "
        "checkpoint. Default: the training runs to its end.",
    )
    finished: Finished | None = Field(
        None, description="What happens to the job after its end. Default: it is kept."
    )

    rules = (
        Rule(
            cel="!has(self.budget) || !has(self.budget.maxCostUsd)"
            f" || self.budget.onExceeded != 'Suspend' || {_OUTLIVES_PODS_CEL}",
            message="budget.onExceeded: Suspend, the default, needs a checkpoint that outlives the "
            f"pods: {_NAME_A_DURABLE_PLACE}; or choose onExceeded: Fail or Warn",
            holds=_budget_can_suspend,
        ),
        Rule(
            cel=f"!has(self.schedule) || {_OUTLIVES_PODS_CEL}",
            message="schedule suspends the job between its windows, which needs a checkpoint that "
            f"outlives the pods: {_NAME_A_DURABLE_PLACE}",
            holds=lambda s: s.schedule is None or _outlives_pods(s),
        ),
        Rule(
            cel=f"!has(self.idle) || {_OUTLIVES_PODS_CEL}",
            message="idle.suspendAfter suspends the job, which needs a checkpoint that outlives "
            f"the pods: {_NAME_A_DURABLE_PLACE}",
            holds=lambda s: s.idle is None or _outlives_pods(s),
        ),
        Rule(
            cel="!has(self.deadline) || self.deadline.onMissed != 'OnDemand'"
            " || self.placement.capacity != 'Spot'",
            message="deadline.onMissed: OnDemand needs on-demand capacity, which "
            "placement.capacity: Spot excludes: choose capacity: Mixed or another onMissed",
            holds=_deadline_fits_capacity,
        ),
        Rule(
            cel="self.placement.onDemandBase <= self.workers.max",
            message="placement.onDemandBase must not be above workers.max, which defaults to 1",
            holds=lambda s: s.placement.on_demand_base <= s.workers.max,
        ),
        Rule(
            cel="!has(self.placement.lend) || !has(self.placement.lend.atLeast)"
            " || self.placement.lend.atLeast % self.workers.perReplica == 0",
            message="placement.lend.atLeast must be a multiple of workers.perReplica: a replica "
            "is kept or lent as a whole",
            holds=_keeps_whole_replicas,
        ),
        *STAGE_RULES,
    )

    @property
    def scaling_mode(self) -> ScalingMode:
        """The mode given, or the one that follows from the sizes."""
        if self.scaling.mode is not None:
            return self.scaling.mode
        return ScalingMode.AUTO if self.workers.min < self.workers.max else ScalingMode.MANUAL


# CEL compares undeclared fields only by their values: a container in which `envFrom` replaces `env`
# looks unchanged to it. The training is safe from that, because all workers of a world have the
# same hash of the template.
def _only_while_suspended(field: str, unchanged: str) -> Rule:
    return Rule(
        # The usual case is checked first: every status write goes through these rules, and for each
        # field that CEL reads, the API server copies the schema of all its siblings.
        cel=f"{unchanged} || self.spec.suspend || oldSelf.spec.suspend"
        " || (has(oldSelf.status) && has(oldSelf.status.phase)"
        " && oldSelf.status.phase == 'Suspended')",
        message=f"{field} may change only while the job is suspended: set spec.suspend to true "
        "first, "
        "or in the same change",
        holds=None,
    )


def _optional_unchanged(path: str) -> str:
    new, old = f"self.spec.{path}", f"oldSelf.spec.{path}"
    return f"(has({new}) == has({old}) && (!has({new}) || {new} == {old}))"


class TrainingJob(Model):
    """One PyTorch training run on spot capacity, sized by utilization and metered in USD."""

    api_version: Literal["spotrun.dev/v1alpha1"] = Field(description="The version of the API.")
    kind: Literal["TrainingJob"] = Field(description="The kind of object.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels and annotations.")
    spec: TrainingJobSpec = Field(
        description="The wanted state of the job. Only workers.template is required."
    )
    status: TrainingJobStatus | None = Field(
        None,
        description="The observed state of the job; only the operator writes here. Words such as "
        "world, worker id or settled are explained in "
        "https://github.com/spotrun/spotrun/blob/main/docs/glossary.md.",
    )

    rules = (
        Rule(
            cel="size(self.metadata.name) <= 50 && !self.metadata.name.contains('.')",
            message="metadata.name must be at most 50 characters and without dots, because the "
            "names of the workers' pods begin with it",
            holds=lambda j: len(j.metadata.name or "") <= 50 and "." not in (j.metadata.name or ""),
        ),
        Rule(
            cel=_optional_unchanged("managedBy"),
            message="spec.managedBy cannot change: delete the job, and create it again",
            holds=None,
        ),
        _only_while_suspended(
            "spec.workers.template", "self.spec.workers.template == oldSelf.spec.workers.template"
        ),
        _only_while_suspended(
            "spec.workers.perReplica",
            "self.spec.workers.perReplica == oldSelf.spec.workers.perReplica",
        ),
        _only_while_suspended(
            "spec.workers.inject", "self.spec.workers.inject == oldSelf.spec.workers.inject"
        ),
        _only_while_suspended("spec.workers.processes", _optional_unchanged("workers.processes")),
        _only_while_suspended("spec.stages", _optional_unchanged("stages")),
        _only_while_suspended("spec.checkpoint", _optional_unchanged("checkpoint")),
    )
