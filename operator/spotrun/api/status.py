"""The status of a job, and the ledger in it, which must not be lost."""

from typing import Annotated

from pydantic import Field

from spotrun.api import old_names
from spotrun.api.cost import Accumulators, Cost
from spotrun.api.field_types.amounts import Amount, Measured, Percent
from spotrun.api.field_types.bounded import Count, ListedWorkerIds, Long, LongText, ShortText
from spotrun.api.field_types.text_values import Intervals, Time, WorkerIds
from spotrun.api.meta import Condition
from spotrun.api.model import Model
from spotrun.api.names import Choice, Phase, SuspendedBy
from spotrun.api.old_names import reading
from spotrun.api.status_parts.gives_way import GivesWay
from spotrun.api.status_parts.local_checkpoint import LocalCheckpoint
from spotrun.api.status_parts.metric_course import MetricCourse
from spotrun.api.status_parts.saving_plan import SavingPlan
from spotrun.api.status_parts.scaling import ScalingStatus
from spotrun.api.status_parts.stage_status import StageStatus
from spotrun.wire import MOST_METRICS


class Allowed(Model):
    """The largest size the job may have now."""

    size: Count = Field(
        description="The number of workers that market, budget and deadline allow now."
    )
    reason: ShortText = Field(description="The reason for this limit, as one CamelCase word.")


class WorkersStatus(Model):
    """The numbers of workers."""

    summary: ShortText | None = Field(
        None, description='Running workers out of wanted workers, e.g. "6/8".'
    )
    running: Count | None = Field(None, description="Workers whose containers run.")
    spot: Count | None = Field(None, description="Running workers on spot capacity.")
    on_demand: Count | None = Field(None, description="Running workers on on-demand capacity.")
    allowed: Allowed | None = Field(
        None, description="The largest size the job may have now, and what limits it."
    )
    selector: LongText | None = Field(
        None, description="The label selector of the job's pods, for autoscalers."
    )


class Entry(Choice):
    """The way in which the members enter a world."""

    BOUNDARY = "Boundary", "all ranks agree on a step, and continue in the same processes"
    ABORT = (
        "Abort",
        "a member is gone or the group broke; the others continue from the last common step",
    )
    RESTART = "Restart", "the processes start again from the acknowledged checkpoint"


class World(Model):
    """The workers that train together, in rank order."""

    model_config = reading(old_names.WORLD)

    number: Count = Field(
        description="The number of this world; each new world of the job has a higher one."
    )
    members: WorkerIds = Field(
        description='Ids of the workers in rank order, as intervals, e.g. "0-2,7".'
    )
    active: bool = Field(
        description="False while the world is prepared, true once its members are told to enter it."
    )
    entry: Entry = Field(
        description=f"The way in which the members enter the world. {Entry.explained()}"
    )
    store: ShortText | None = Field(
        None, description="The host:port of the TCPStore through which the members find each other."
    )
    state_holders: WorkerIds | None = Field(
        None,
        description="Members of the last world that trained. Only they have the state; while "
        "active is false they continue to train.",
    )
    used_stores: Annotated[tuple[ShortText, ...], Field(max_length=16)] | None = Field(
        None,
        description="The stores of the last worlds, newest last. A store serves one world only.",
    )
    restore: ShortText | None = Field(
        None, description="The checkpoint from which the world starts if no worker has newer state."
    )
    formed_at: Time | None = Field(
        None,
        description="Time at which the world was published, or its members were told to enter it.",
    )
    training_number: Count | None = Field(
        None, description="While active is false: the number of the world that trains meanwhile."
    )
    late_workers: WorkerIds | None = Field(
        None,
        description="Workers that were left out because they did not arrive in time, listed once "
        "for each time. A worker that is late twice is replaced. A worker that failed on a node "
        "that is blamed twice is listed twice at once.",
    )
    planned: bool | None = Field(
        None,
        description="True if processes are ended or restarted although no worker was lost. A "
        "script that saves when it gets SIGTERM then has the pod's grace period to do so.",
    )
    stage: Count | None = Field(
        None, description="Index in spec.stages of the stage that the world trains; absent for 0."
    )
    joining_workers: WorkerIds | None = Field(
        None,
        description="Members that did not train before this world. If one of them fails before "
        "its first step, the others continue as before.",
    )
    breaks: Count | None = Field(
        None,
        description="Number of worlds in a row, with the same members, that ended because their "
        "connections broke although no worker was lost. After three this counts as a failure. A "
        "world that trains for two minutes resets the count.",
    )


class Progress(Model):
    """The progress of the training."""

    step: Long | None = Field(None, description="The last step that every rank committed.")
    total_steps: Long | None = Field(
        None, description="Total number of steps; absent while the trainer does not give it."
    )
    percent: Percent | None = Field(
        None, description='Share of the steps that is done, e.g. "42%".'
    )
    samples_per_second: Amount | None = Field(
        None, description="Samples trained per second, over the recent window."
    )
    eta: Time | None = Field(
        None,
        description="Expected end of the training at the present pace, to within a tenth of the "
        "remaining time; absent while unknown.",
    )


class Metric(Model):
    """The newest value of one metric of the training script."""

    value: Measured = Field(
        description='The value, such as "0.31"; NaN and infinities are "NaN", "Infinity" and '
        '"-Infinity".'
    )
    step: Long = Field(description="The step to which the value belongs.")


class CheckpointStatus(Model):
    """The newest checkpoint that the operator acknowledged; a world restores this one."""

    name: ShortText = Field(description="The name of its directory, e.g. step-4200.g7.")
    step: Long = Field(description="The step that it contains.")
    time: Time = Field(description="Time at which it was acknowledged.")
    orders: Count | None = Field(
        None,
        description="Value of orders.checkpoint when this checkpoint was begun: it answers the "
        "requests up to that one. Absent if the trainer does not report it.",
    )


class Interruption(Model):
    """One worker that the platform took away."""

    time: Time = Field(description="Time at which the operator noticed it.")
    worker: Count = Field(description="The worker's id.")
    reason: ShortText = Field(description="Reclaimed, NodeLost, Drained or Preempted.")
    pool: ShortText | None = Field(None, description="The CapacityPool it ran in.")
    node: ShortText | None = Field(None, description="The node it ran on.")


class Interruptions(Model):
    """Workers that the platform took away; these never count as failures."""

    count: Count | None = Field(None, description="Number of interruptions so far.")
    lost_steps: Long | None = Field(
        None, description="Steps that were done again because of interruptions."
    )
    last: Interruption | None = Field(None, description="The most recent interruption.")


class HeldBack(Model):
    """Workers that failed before they trained, in one world."""

    model_config = reading(old_names.HELD_BACK)

    workers: ListedWorkerIds = Field(description='Worker ids, e.g. "0-2,7".')
    world_number: Count | None = Field(
        None,
        description="The number of the world in which they were, or for which they prepared; "
        "absent if there was none.",
    )


MOST_HELD_WORLDS = 15
"""The maximum; beyond it, the world in which a joining worker failed is forgotten."""


class JoiningWorkers(Model):
    """Joining workers that failed while others trained; this never ends the job."""

    failures: Count = Field(
        description="Number of failures in a row; failures during one pause count once. Reset "
        "when one of these workers, or its replacement, trains, or when no other worker is wanted."
    )
    retry_at: Time = Field(description="Time at which the operator tries joining workers again.")
    held: Annotated[tuple[HeldBack, ...], Field(max_length=MOST_HELD_WORLDS + 1)] | None = Field(
        None,
        description="Failed joining workers that still exist, grouped by the world in which they "
        "last failed. Until retryAt no world waits for them.",
    )


MOST_TRIED_SIZES = 16
MOST_AVOIDED = 64
"""The maximum number of nodes that new workers avoid: their pods name each of them, and the
scheduler compares it with every node that it could choose."""
MOST_BLAMED_ONCE = 128
"""The maximum of nodes that a large job may find broken at once, by a new driver for example."""


class TriedSizes(Model):
    """Numbers of workers with which a script without `Run` trains or fails to start."""

    trained: Annotated[tuple[Count, ...], Field(max_length=MOST_TRIED_SIZES)] | None = Field(
        None, description="Numbers of workers with which the script was seen to train, newest last."
    )
    suspect: Count | None = Field(
        None,
        description="A number of workers with which the script never trained, and with which its "
        "last start failed before the first step.",
    )
    error: LongText | None = Field(
        None,
        description="The error of that start, without numbers. If the same error comes again, the "
        "script refuses this size.",
    )
    held: Count | None = Field(
        None,
        description="The number of workers that the job keeps because the script refuses another "
        "number.",
    )
    template: ShortText | None = Field(
        None,
        description="The hash of the template for which this is known; it says nothing about "
        "other templates.",
    )


class BatchChange(Model):
    """The last change of size of a script without `Run`, and its effect on the batches."""

    time: Time = Field(description="Time of the first step at the new size.")
    from_workers: Count = Field(description="Number of workers that trained before.")
    to_workers: Count = Field(description="Number of workers that train since then.")
    message: LongText = Field(
        description="What changes: the samples of a step, the steps of an epoch, and their order."
    )


class Restarts(Model):
    """Failures, and the restarts that followed."""

    model_config = reading(old_names.RESTARTS)

    failures: Count | None = Field(
        None, description="Failures counted against failures.maxRestarts."
    )
    counted_since: Time | None = Field(
        None, description="Time at which the count was reset, after an hour of progress."
    )
    retry_at: Time | None = Field(
        None, description="Time of the next attempt, if the job waits for one."
    )
    last_world_number: Count | None = Field(
        None,
        description="The number of the world in which the last failure happened. Further reports "
        "from that world's members are not counted.",
    )
    last_reason: ShortText | None = Field(
        None, description="The reason for the last failure, as one CamelCase word."
    )
    last_exit_code: Annotated[int, Field(ge=0, le=255)] | None = Field(
        None, description="The exit code of the last failure, if there was one."
    )
    last_message: LongText | None = Field(None, description="The message of the last failure.")
    last_follows: bool | None = Field(
        None,
        description="True if the process of the last failure only noticed that another process "
        "ended or was silent, and that process has not reported the cause.",
    )
    blamed: (
        Annotated[tuple[ShortText, ...], Field(max_length=2 * MOST_AVOIDED + MOST_BLAMED_ONCE)]
        | None
    ) = Field(
        None,
        description="The nodes of the last failures, newest last. A node that is listed twice "
        f"gets no new workers of this job. At most the last {MOST_AVOIDED} nodes are listed "
        f"twice, and {MOST_BLAMED_ONCE} once.",
    )
    joining_workers: JoiningWorkers | None = Field(
        None, description="Joining workers that failed while others trained."
    )
    sizes: TriedSizes | None = Field(
        None,
        description="Numbers of workers with which a script without `Run` has trained, or fails "
        "to start.",
    )


class Rejections(Model):
    """Workers that a node did not accept; these never count as failures."""

    count: Count = Field(
        description="Number of rejections in a row. Reset when a node accepts a later worker."
    )
    worker: Count = Field(description="The id of the last rejected worker.")
    retry_at: Time = Field(description="Time at which workers are created again.")
    nodes: Annotated[tuple[ShortText, ...], Field(max_length=MOST_AVOIDED)] | None = Field(
        None,
        description="Host names of the last nodes that rejected workers, newest last. New workers "
        "avoid them until two minutes after retryAt.",
    )
    message: LongText = Field(description="The message of the kubelet of the last node.")


class Unused(Model):
    """Nodes that were given back: no allowed size could use them, as other nodes did not come."""

    count: Count = Field(description="Number of times in a row that nodes were given back.")
    size: Count = Field(description="Number of workers to which the job is limited until retryAt.")
    room: Count = Field(
        description="Number of further workers for which nodes seemed to have room. If there is "
        "room for more, the job does not wait for retryAt."
    )
    retry_at: Time | None = Field(
        None, description="Time at which the operator asks for all wanted workers again."
    )
    retried_at: Time | None = Field(
        None, description="Time at which the operator last asked for all wanted workers again."
    )


class Orders(Model):
    """Requests from the operator to the workers."""

    checkpoint: Count = Field(
        description="Number of checkpoints requested in addition to the regular ones; it only "
        "grows."
    )
    time: Time = Field(description="Time of the last request.")


class Pace(Model):
    """Measurements of the job: the duration of its steps and of its changeovers."""

    step_seconds: Amount | None = Field(None, description="Duration of a step, in seconds.")
    workers: Count | None = Field(
        None, description="The size of the world in which this duration was measured."
    )
    changeovers: Annotated[tuple[Count, ...], Field(max_length=10)] | None = Field(
        None,
        description="Times from the launch of a new worker until it trained, of the last new "
        "workers, in seconds, newest last.",
    )
    measured: Count | None = Field(
        None, description="The highest worker id that is included in changeovers."
    )


class Decision(Model):
    """A decision of the operator, also one to change nothing."""

    time: Time = Field(description="Time of the decision.")
    what: ShortText = Field(description="The decision, e.g. Grow, Shrink, Stay or Replace.")
    why: LongText = Field(description="The reason for the decision, in words.")
    numbers: Annotated[dict[str, ShortText], Field(max_length=32)] | None = Field(
        None, description="The numbers on which the decision is based, by name."
    )


class TrainingJobStatus(Model):
    """The status of the job; only the operator writes here."""

    model_config = reading(old_names.STATUS)

    phase: Phase | None = Field(
        None, description=f"The stage of the job's life. {Phase.explained()}"
    )
    reason: ShortText | None = Field(
        None, description="The reason for the phase, as one CamelCase word for programs."
    )
    message: LongText | None = Field(
        None, description="The reason for the phase, in one line that a person can act on."
    )
    observed_generation: Long | None = Field(
        None, description="The metadata.generation for which this status was determined."
    )
    suspended_by: Annotated[tuple[SuspendedBy, ...], Field(max_length=7)] | None = Field(
        None,
        description="The causes of the suspension; each ends by its own rule. "
        f"{SuspendedBy.explained()}",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    workers: WorkersStatus | None = Field(None, description="The numbers of workers.")
    world: World | None = Field(
        None,
        description="The workers that train together, in rank order. See "
        "https://github.com/spotrun/spotrun/blob/main/docs/glossary.md.",
    )
    progress: Progress | None = Field(None, description="The progress of the training.")
    metrics: Annotated[dict[str, Metric], Field(max_length=MOST_METRICS)] | None = Field(
        None,
        description="The newest values of the script's metrics, by name, from rank 0's run.log or "
        "from spotrun_trainer.report. A step that is repeated after a loss counts once.",
    )
    stage: StageStatus | None = Field(None, description="The stage of spec.stages that trains now.")
    stop_when: MetricCourse | None = Field(
        None,
        description="The best and newest values of the metric of spec.stopWhen, and whether it "
        "ends the training.",
    )
    checkpoint: CheckpointStatus | None = Field(
        None,
        description="The newest checkpoint that the operator acknowledged; a world restores this "
        "one.",
    )
    local_checkpoint: LocalCheckpoint | None = Field(
        None,
        description="The newest step in the local tier (spec.checkpoint.local). After the loss of "
        "one node the job restores it.",
    )
    saving: SavingPlan | None = Field(
        None,
        description="The interval between checkpoints and the number kept, chosen within "
        "checkpoint.budgetUsd.",
    )
    pace: Pace | None = Field(None, description="Measurements of the job's steps and changeovers.")
    scaling: ScalingStatus | None = Field(
        None, description="Why the job has its present size; only in mode Auto."
    )
    orders: Orders | None = Field(None, description="Requests from the operator to the workers.")
    interruptions: Interruptions | None = Field(
        None, description="Workers that the platform took away."
    )
    restarts: Restarts | None = Field(None, description="Failures, and the restarts that followed.")
    batch_change: BatchChange | None = Field(
        None,
        description="The last change of size of a script without `Run`; since then its global "
        "batch is a different one.",
    )
    rejections: Rejections | None = Field(None, description="Workers that a node did not accept.")
    unused: Unused | None = Field(
        None, description="Nodes that were given back because no allowed size could use them."
    )
    gives_way: GivesWay | None = Field(
        None, description="Nodes that the job gave up for a job of higher priority."
    )
    cost: Cost | None = Field(
        None,
        description="The cost and the savings of the job, in USD, updated at most once a minute.",
    )
    decisions: Annotated[tuple[Decision, ...], Field(max_length=10)] | None = Field(
        None, description="The last ten decisions, newest last, each with its numbers."
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] | None = Field(
        None,
        description="Conditions of the job, for programs and `kubectl wait`.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    next_worker_id: Count | None = Field(
        None, description="The id of the next worker; stored before its pod is created."
    )
    settled: Intervals | None = Field(
        None,
        description='Ids of workers whose cost is in the sums, e.g. "0-41,43". Long lists of '
        "worker ids, here and elsewhere, begin with +: then each number is the distance from the "
        "one before.",
    )
    lost: WorkerIds | None = Field(
        None,
        description="Ids of workers that the operator has given up, although their containers may "
        "still run. New workers avoid their nodes until something is heard from there.",
    )
    failed: WorkerIds | None = Field(
        None,
        description="Ids of workers that have failed while other containers of their pods still "
        "run. The failure is seen repeatedly, and counts once.",
    )
    accumulators: Accumulators | None = Field(
        None, description="Exact sums that the operator continues after a restart."
    )
