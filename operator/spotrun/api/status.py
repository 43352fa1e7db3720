"""The status of a job, and the ledger in it, which must not be forgotten."""

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
        description="The number of workers that market, budget and deadline allow at present."
    )
    reason: ShortText = Field(description="The cause of this limit, in one CamelCase word.")


class WorkersStatus(Model):
    """The workers there are."""

    summary: ShortText | None = Field(
        None, description='Workers that run of workers wanted, e.g. "6/8".'
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
    """The way in which a world is entered."""

    BOUNDARY = "Boundary", "all ranks agree on a step, and go on in process"
    ABORT = "Abort", "a member is gone or the group broke; the rest go on from the last common step"
    RESTART = "Restart", "the processes start again from the acknowledged checkpoint"


class World(Model):
    """The workers that train together, in rank order."""

    model_config = reading(old_names.WORLD)

    number: Count = Field(description="Counts the worlds of the job; the newest one is this.")
    members: WorkerIds = Field(
        description='Ids of the workers in rank order, as intervals, e.g. "0-2,7".'
    )
    active: bool = Field(
        description="False while the world is prepared, true once its members are to enter it."
    )
    entry: Entry = Field(description=f"The way in which it is entered. {Entry.explained()}")
    store: ShortText | None = Field(
        None, description="The members' meeting point: host:port of their store."
    )
    state_holders: WorkerIds | None = Field(
        None,
        description="Members of the last world that trained: only they have the state, and while "
        "active is false they go on training.",
    )
    used_stores: Annotated[tuple[ShortText, ...], Field(max_length=16)] | None = Field(
        None,
        description="The stores of the last worlds, newest last: each store serves one world only.",
    )
    restore: ShortText | None = Field(
        None, description="The checkpoint it starts from where no worker has newer state."
    )
    formed_at: Time | None = Field(
        None, description="Time at which it was published, or its members were told to enter it."
    )
    training_number: Count | None = Field(
        None, description="While active is false: the number of the world that trains meanwhile."
    )
    late_workers: WorkerIds | None = Field(
        None,
        description="Workers that were left out because they did not arrive in time, once for each "
        "time; one that is late twice is replaced. One that failed on a node that is blamed "
        "twice is named twice at once.",
    )
    planned: bool | None = Field(
        None,
        description="True where processes are ended, or started again, though nobody was lost: a "
        "script that saves when it is told to end (SIGTERM) has the pod's grace period to do so.",
    )
    stage: Count | None = Field(
        None, description="The place in spec.stages of the stage that it trains; absent for 0."
    )
    joining_workers: WorkerIds | None = Field(
        None,
        description="Members that did not train before it. If one fails before it has made a step "
        "the others go on as before.",
    )
    breaks: Count | None = Field(
        None,
        description="Number of worlds in a row, each of the same members, that were followed by "
        "another one because their connections broke though no worker was lost. After three it "
        "counts as a failure; a world that trains for two minutes begins the count anew.",
    )


class Progress(Model):
    """The progress of the training."""

    step: Long | None = Field(None, description="The last step that every rank committed.")
    total_steps: Long | None = Field(
        None, description="Steps in all; absent while the trainer does not say."
    )
    percent: Percent | None = Field(None, description='Steps done of steps in all, e.g. "42%".')
    samples_per_second: Amount | None = Field(
        None, description="Samples trained per second, over the recent window."
    )
    eta: Time | None = Field(
        None,
        description="The end of the training at the present pace, to within a tenth of what is "
        "left; absent while that is not known.",
    )


class Metric(Model):
    """The newest value of something that the training script measures."""

    value: Measured = Field(
        description='The value, such as "0.31"; NaN and infinities are "NaN", "Infinity" and '
        '"-Infinity".'
    )
    step: Long = Field(description="The step that it is of.")


class CheckpointStatus(Model):
    """The newest checkpoint that the operator acknowledged; a world restores this one."""

    name: ShortText = Field(description="The name of its directory, e.g. step-4200.g7.")
    step: Long = Field(description="The step it holds.")
    time: Time = Field(description="Time at which it was acknowledged.")
    orders: Count | None = Field(
        None,
        description="Value of orders.checkpoint when it was begun: it answers these requests; "
        "absent where its trainer does not say.",
    )


class Interruption(Model):
    """One worker taken away by its platform."""

    time: Time = Field(description="Time at which it was noticed.")
    worker: Count = Field(description="The worker's id.")
    reason: ShortText = Field(description="Reclaimed, NodeLost, Drained or Preempted.")
    pool: ShortText | None = Field(None, description="The CapacityPool it ran in.")
    node: ShortText | None = Field(None, description="The node it ran on.")


class Interruptions(Model):
    """Workers taken away, which is nobody's failure."""

    count: Count | None = Field(None, description="Number of interruptions so far.")
    lost_steps: Long | None = Field(None, description="Steps done again because of them.")
    last: Interruption | None = Field(None, description="The most recent one.")


class HeldBack(Model):
    """Workers that failed before they trained, in one world."""

    model_config = reading(old_names.HELD_BACK)

    workers: ListedWorkerIds = Field(description='Worker ids, e.g. "0-2,7".')
    world_number: Count | None = Field(
        None,
        description="The number of the world that they were in, or got ready for; absent if it "
        "was none.",
    )


MOST_HELD_WORLDS = 15
"""Beyond this number the world in which a joining worker failed is forgotten."""


class JoiningWorkers(Model):
    """Workers that failed before they trained, while others did: that ends no job."""

    failures: Count = Field(
        description="Number of failures in a row, those within a pause counted once: until one of "
        "them trains, or nobody else is wanted."
    )
    retry_at: Time = Field(description="Time at which they are tried again.")
    held: Annotated[tuple[HeldBack, ...], Field(max_length=MOST_HELD_WORLDS + 1)] | None = Field(
        None,
        description="Failed joining workers that are still there, by the last worlds in which they "
        "failed; until then no world waits for them.",
    )


MOST_TRIED_SIZES = 16
MOST_AVOIDED = 64
"""Nodes that new workers keep away from: each is named in their pods, and the scheduler looks for
it at every node that it could choose."""
MOST_BLAMED_ONCE = 128
"""A large job may find this many nodes broken at once, by a driver that was rolled out."""


class TriedSizes(Model):
    """Sizes of a script that trains without `Run`; it may work at some of them only."""

    trained: Annotated[tuple[Count, ...], Field(max_length=MOST_TRIED_SIZES)] | None = Field(
        None, description="Numbers of workers with which it was seen to train, the newest last."
    )
    suspect: Count | None = Field(
        None,
        description="A number of workers with which it never trained, and with which its last "
        "start failed before the first step.",
    )
    error: LongText | None = Field(
        None, description="What it said there, without numbers; the same again is a refusal."
    )
    held: Count | None = Field(
        None, description="The number of workers that the job keeps to, since it refuses another."
    )
    template: ShortText | None = Field(
        None,
        description="The hash of the template for which this is known; of another one nothing is.",
    )


class BatchChange(Model):
    """The last change of size of a script without `Run`, and what it means to its batches."""

    time: Time = Field(description="Time of the first step at the new size.")
    from_workers: Count = Field(description="Number of workers that trained before.")
    to_workers: Count = Field(description="Number of workers that train since.")
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
        None, description="Time at which the count started afresh, after an hour of progress."
    )
    retry_at: Time | None = Field(None, description="Time of the next attempt, if one waits.")
    last_world_number: Count | None = Field(
        None,
        description="The number of the world in which the last one happened; reports of its peers "
        "are not counted.",
    )
    last_reason: ShortText | None = Field(
        None, description="Why the last one failed, in one CamelCase word."
    )
    last_exit_code: Annotated[int, Field(ge=0, le=255)] | None = Field(
        None, description="The exit code of the last one, if there was one."
    )
    last_message: LongText | None = Field(None, description="The message of the last one.")
    last_follows: bool | None = Field(
        None,
        description="Whether the last one was of a process that noticed the end or the silence of "
        "another, which has not said why.",
    )
    blamed: (
        Annotated[tuple[ShortText, ...], Field(max_length=2 * MOST_AVOIDED + MOST_BLAMED_ONCE)]
        | None
    ) = Field(
        None,
        description="The nodes of the last failures, newest last; one that is named twice gets no "
        f"new workers of this job. At most {MOST_AVOIDED} are named twice, the last ones, and "
        f"{MOST_BLAMED_ONCE} once.",
    )
    joining_workers: JoiningWorkers | None = Field(
        None, description="Workers that failed before they trained, while others did."
    )
    sizes: TriedSizes | None = Field(
        None, description="Sizes at which a script without `Run` has trained, or fails to start."
    )


class Rejections(Model):
    """Workers that were bound to a node and not taken there, which is nobody's failure."""

    count: Count = Field(
        description="Number of rejections in a row: until a worker that came later is taken by its "
        "node."
    )
    worker: Count = Field(description="The id of the last one.")
    retry_at: Time = Field(description="Time at which workers are made again.")
    nodes: Annotated[tuple[ShortText, ...], Field(max_length=MOST_AVOIDED)] | None = Field(
        None,
        description="The host names of the last nodes that did so, newest last; new workers keep "
        "away from them until two minutes after retryAt.",
    )
    message: LongText = Field(description="The message of the last node's kubelet.")


class Unused(Model):
    """Nodes that no allowed size could use, since others did not come: they were given back."""

    count: Count = Field(description="Number of times in a row.")
    size: Count = Field(description="Number of workers that the job keeps to until retryAt.")
    room: Count = Field(
        description="Number of further workers for which nodes seemed to have room: more room is "
        "asked for at once."
    )
    retry_at: Time | None = Field(
        None, description="Time at which all wanted workers are asked for again."
    )
    retried_at: Time | None = Field(
        None, description="Time at which they were asked for again last."
    )


class Orders(Model):
    """Requests to the workers beside training."""

    checkpoint: Count = Field(
        description="Number of checkpoints that were asked for out of turn; it only grows."
    )
    time: Time = Field(description="Time of the last request.")


class Pace(Model):
    """Measurements of the job: the duration of its steps and of its changeovers."""

    step_seconds: Amount | None = Field(None, description="Duration of a step, in seconds.")
    workers: Count | None = Field(None, description="The size of the world with this duration.")
    changeovers: Annotated[tuple[Count, ...], Field(max_length=10)] | None = Field(
        None,
        description="Times from the launch of the last new workers until they trained, in seconds, "
        "newest last.",
    )
    measured: Count | None = Field(
        None, description="The highest id of a worker that is among them."
    )


class Decision(Model):
    """A decision of the operator; one to change nothing is listed as well."""

    time: Time = Field(description="Time of the decision.")
    what: ShortText = Field(description="The decision, e.g. Grow, Shrink, Stay or Replace.")
    why: LongText = Field(description="Why, in words.")
    numbers: Annotated[dict[str, ShortText], Field(max_length=32)] | None = Field(
        None, description="The numbers it was decided on, by name."
    )


class TrainingJobStatus(Model):
    """The status of the job; only the operator writes here."""

    model_config = reading(old_names.STATUS)

    phase: Phase | None = Field(
        None, description=f"The stage of the job's life. {Phase.explained()}"
    )
    reason: ShortText | None = Field(
        None, description="The cause of the phase, in one CamelCase word for machines."
    )
    message: LongText | None = Field(
        None, description="The cause of the phase, in one line that a person can act on."
    )
    observed_generation: Long | None = Field(
        None, description="The metadata.generation that this status was concluded from."
    )
    suspended_by: Annotated[tuple[SuspendedBy, ...], Field(max_length=7)] | None = Field(
        None,
        description="The causes of the suspension; each is cleared by its own rule. "
        f"{SuspendedBy.explained()}",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    workers: WorkersStatus | None = Field(None, description="The workers there are.")
    world: World | None = Field(
        None,
        description="The workers that train together, in rank order. See "
        "https://github.com/spotrun/spotrun/blob/main/docs/glossary.md.",
    )
    progress: Progress | None = Field(None, description="The progress of the training.")
    metrics: Annotated[dict[str, Metric], Field(max_length=MOST_METRICS)] | None = Field(
        None,
        description="The newest values of what the script measures, by name: rank 0's run.log, or "
        "spotrun_trainer.report. A step that is done again after a loss counts once.",
    )
    stage: StageStatus | None = Field(None, description="The stage of spec.stages that trains.")
    stop_when: MetricCourse | None = Field(
        None, description="The course of the metric of spec.stopWhen, and whether it was reached."
    )
    checkpoint: CheckpointStatus | None = Field(
        None, description="The newest checkpoint the operator acknowledged; a world restores it."
    )
    local_checkpoint: LocalCheckpoint | None = Field(
        None,
        description="The newest step in the local tier (spec.checkpoint.local); a loss of one node "
        "goes back to it.",
    )
    saving: SavingPlan | None = Field(
        None, description="How often is saved and how much is kept within checkpoint.budgetUsd."
    )
    pace: Pace | None = Field(None, description="Measurements of the job's steps and changeovers.")
    scaling: ScalingStatus | None = Field(
        None, description="Why the job has the size it has; in mode Auto only."
    )
    orders: Orders | None = Field(None, description="Requests to the workers beside training.")
    interruptions: Interruptions | None = Field(None, description="Workers that were taken away.")
    restarts: Restarts | None = Field(None, description="Failures, and the restarts that followed.")
    batch_change: BatchChange | None = Field(
        None,
        description="The last change of size of a script without `Run`: its global batch is "
        "another one since.",
    )
    rejections: Rejections | None = Field(None, description="Workers that nodes did not take.")
    unused: Unused | None = Field(
        None, description="Nodes that no allowed size of the job could use."
    )
    gives_way: GivesWay | None = Field(
        None, description="The room that the job gave to one of higher priority."
    )
    cost: Cost | None = Field(
        None,
        description="The cost and the savings of the job, in USD, written at most once a minute.",
    )
    decisions: Annotated[tuple[Decision, ...], Field(max_length=10)] | None = Field(
        None, description="The last ten decisions, newest last, each with its numbers."
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] | None = Field(
        None,
        description="Aspects of the job's state for machines and `kubectl wait`.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    next_worker_id: Count | None = Field(
        None, description="The id that the next worker gets; stored before its pod is made."
    )
    settled: Intervals | None = Field(
        None,
        description='Ids of workers whose cost is in the sums, e.g. "0-41,43". This and '
        "the other lists of worker ids begin with + where they are long: then each number is "
        "the distance from the one before.",
    )
    lost: WorkerIds | None = Field(
        None,
        description="Ids of workers that were given up, though their containers may "
        "still run; new workers keep away from their nodes until something is heard from there.",
    )
    failed: WorkerIds | None = Field(
        None,
        description="Ids of workers that have failed, while containers beside their "
        "trainer still run: that end is seen again and again, and counts once.",
    )
    accumulators: Accumulators | None = Field(
        None, description="Exact sums that the operator continues after a restart."
    )
