"""The registry of all names that spotrun writes into clusters and pods: labels, reasons, variables.

A name is a plain string that also has a `purpose`, one line about its use. The reference in docs/
is generated from these lines, so every name must have one.
"""

from enum import StrEnum
from typing import Final, Self

from typing_extensions import override


class Name(str):
    """A string constant with a purpose."""

    __slots__ = ("purpose",)
    purpose: str

    def __new__(cls, text: str, purpose: str) -> Self:
        name = super().__new__(cls, text)
        name.purpose = purpose
        return name

    @override
    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        # Manifests contain names and are copied.
        return type(self), (str(self), self.purpose)


class Choice(StrEnum):
    """An enum whose members each have one line about their meaning."""

    purpose: str

    def __new__(cls, value: str, purpose: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.purpose = purpose
        return member

    @classmethod
    def explained(cls) -> str:
        """Return one line about each member's meaning, for field descriptions."""
        return " ".join(f"{member.value}: {member.purpose}." for member in cls)


GROUP: Final = Name("spotrun.dev", "the API group, and the prefix of all names of spotrun")
VERSION: Final = Name("v1alpha1", "the served and stored version of the API")
API_VERSION: Final = Name(f"{GROUP}/{VERSION}", "the apiVersion in manifests")
TRAINING_JOB: Final = Name("TrainingJob", "the kind that users write")
CAPACITY_POOL: Final = Name("CapacityPool", "the kind that describes one offer of the market")
TUNING_JOB: Final = Name("TuningJob", "the kind that searches for parameters with TrainingJobs")
SPEND_LIMIT: Final = Name("SpendLimit", "the kind that limits what jobs of a namespace spend")

# Node labels that Kubernetes defines, the present name before the former one.
HOST_LABEL: Final = "kubernetes.io/hostname"
INSTANCE_TYPE_LABELS: Final = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
)
ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
REGION_LABELS: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")

LABEL_JOB: Final = Name("spotrun.dev/job", "on every object of a job: the name of the TrainingJob")
LABEL_JOB_UID: Final = Name(
    "spotrun.dev/job-uid",
    "on every object of a job: its UID, as a job that is created again is another one",
)
LABEL_WORKER_ID: Final = Name(
    "spotrun.dev/worker-id", "on worker pods: the worker's id, a number that its job gives out once"
)
LABEL_TEMPLATE: Final = Name(
    "spotrun.dev/template", "on worker pods: the hash of the template they were made from"
)
LABEL_CAPACITY: Final = Name(
    "spotrun.dev/capacity", "on worker pods and pools: Spot, OnDemand or Reserved"
)
LABEL_SLOT: Final = Name(
    "spotrun.dev/slot",
    "on worker pods if perReplica is above 1: the part of a copy of the model that it holds",
)
LABEL_REPLICA: Final = Name(
    "spotrun.dev/replica",
    "on worker pods if perReplica is above 1: the replica near whose workers it is placed, named "
    "by the id of that replica's first worker",
)
LABEL_LENT: Final = Name(
    "spotrun.dev/lent",
    "on worker pods: `true` if the place is lent to pods of higher priority (placement.lend)",
)
LABEL_TUNING_JOB: Final = Name(
    "spotrun.dev/tuning-job", "on the TrainingJobs of trials: the name of their TuningJob"
)
LABEL_TRIAL: Final = Name(
    "spotrun.dev/trial", "on the TrainingJobs of trials: the number of the trial, from 0"
)
LABEL_TEAM: Final = Name("team", "on TrainingJobs, copied to their pods: who pays")
LABEL_COST_CENTER: Final = Name(
    "cost-center", "on TrainingJobs, copied to their pods: the cost center to which they are booked"
)
LABEL_PROJECT: Final = Name(
    "project", "on TrainingJobs, copied to their pods: the project they belong to"
)
LABEL_RUN: Final = Name(
    "spotrun.dev/run", "on ConfigMaps with the files of `kubectl tjob run`: the name of the job"
)
LABEL_BILL_NAMESPACE: Final = Name(
    "spotrun.dev/bill-namespace", "on ConfigMaps with bills: the namespace whose jobs are billed"
)
LABEL_BILL_MONTH: Final = Name(
    "spotrun.dev/bill-month", "on ConfigMaps with bills: the month, such as 2026-11"
)
LABEL_REPORT: Final = Name(
    "spotrun.dev/report-of", "on ConfigMaps with a kept report: the name of the TrainingJob"
)
REPORT_JOB: Final = Name("job.json", "in ConfigMaps with a kept report: the job as it ended")
REPORT_EVENTS: Final = Name("events.json", "in ConfigMaps with a kept report: the job's Events")
REPORT_VERSION: Final = Name(
    "version", "in ConfigMaps with a kept report: the version of the operator"
)
LABEL_QUEUE: Final = Name(
    "kueue.x-k8s.io/queue-name",
    "on TrainingJobs: the LocalQueue of Kueue that gives the job its workers",
)
LABEL_QUEUE_PRIORITY: Final = Name(
    "kueue.x-k8s.io/priority-class",
    "on TrainingJobs: the WorkloadPriorityClass of Kueue that orders the job in its queue",
)
LABEL_PREBUILT: Final = Name(
    "kueue.x-k8s.io/prebuilt-workload-name",
    "on TrainingJobs, as label or annotation: the Workload with which another cluster's Kueue "
    "requested the job's workers",
)
ANNOTATION_PRIORITY_BOOST: Final = Name(
    "kueue.x-k8s.io/priority-boost",
    "on Workloads: a number that Kueue adds to their priority, if its feature gate PriorityBoost "
    "is on",
)
LABEL_MANAGED_BY: Final = Name(
    "app.kubernetes.io/managed-by", "on every object that the operator makes: its own name"
)
MULTIKUEUE: Final = Name(
    "kueue.x-k8s.io/multikueue",
    "the value of spec.managedBy of jobs that Kueue has run in another cluster",
)
MANAGED_BY: Final = Name(
    "spotrun", "the value of app.kubernetes.io/managed-by, and the field manager"
)

ANNOTATION_COST_USD: Final = Name(
    "spotrun.dev/cost-usd", "on TrainingJobs: the cost of the job so far, in USD"
)
ANNOTATION_COST_USD_PER_HOUR: Final = Name(
    "spotrun.dev/cost-usd-per-hour", "on TrainingJobs: the present cost of the job, in USD per hour"
)
ANNOTATION_COST_ON_DEMAND_USD: Final = Name(
    "spotrun.dev/cost-on-demand-usd",
    "on TrainingJobs: the cost of the same useful work on on-demand, in USD",
)
ANNOTATION_COST_SAVED_USD: Final = Name(
    "spotrun.dev/cost-saved-usd", "on TrainingJobs: on-demand cost minus what was paid, in USD"
)
ANNOTATION_COST_LOST_WORK_USD: Final = Name(
    "spotrun.dev/cost-lost-work-usd",
    "on TrainingJobs: the cost of steps done twice and of stalls, in USD",
)
ANNOTATION_COST_AS_OF: Final = Name(
    "spotrun.dev/cost-as-of", "on TrainingJobs: the time up to which the cost annotations count"
)
ANNOTATION_KEPT_REPORT: Final = Name(
    "spotrun.dev/kept-report", "on TrainingJobs: the ConfigMap that keeps the report of the job"
)
ANNOTATION_NODE_USD_PER_HOUR: Final = Name(
    "spotrun.dev/usd-per-hour",
    "on nodes, set by an admin: the node's price, which replaces every other source",
)
ANNOTATION_POOLS: Final = Name(
    "spotrun.dev/pools",
    "on worker pods: the CapacityPools they were requested from, separated by commas",
)
ANNOTATION_ZONE: Final = Name(
    "spotrun.dev/zone", "on worker pods: the zone they were requested from, if it is only one"
)
ANNOTATION_AVOIDS: Final = Name(
    "spotrun.dev/avoids", "on worker pods: the host names of nodes that they avoid"
)
ANNOTATION_TRAINER: Final = Name(
    "spotrun.dev/trainer", "on worker pods: the name of the container that trains"
)
ANNOTATION_DEVICES: Final = Name(
    "spotrun.dev/devices",
    "on worker pods: the number of devices that the container that trains claims (DRA)",
)
ANNOTATION_INJECTED: Final = Name(
    "spotrun.dev/injected",
    "on worker pods: the image from which spotrun_trainer was added; empty if it was not added",
)
ANNOTATION_COUNT_STEPS: Final = Name(
    "spotrun.dev/count-steps",
    'on TrainingJobs: "false" turns off the counting of steps for scripts without `Run`',
)
ANNOTATION_TOTAL_STEPS: Final = Name(
    "spotrun.dev/total-steps",
    "on TrainingJobs: the total number of steps of a script without `Run`",
)
ANNOTATION_CHECKPOINT_FOLDER: Final = Name(
    "spotrun.dev/checkpoint-folder",
    "on the TrainingJobs of trials: the folder of their checkpoints. It replaces the job's name, "
    "so a TuningJob that is created again does not continue from old trials",
)
ANNOTATION_NOTICE_SIGNAL: Final = Name(
    "spotrun.dev/notice-signal",
    "on TrainingJobs: the signal, such as SIGUSR1, that a script gets before a node is taken away",
)
ANNOTATION_CHECKPOINT_WANTED: Final = Name(
    "spotrun.dev/checkpoint-wanted",
    "on TrainingJobs: the time at which somebody requested an additional checkpoint",
)
ANNOTATION_PROFILE_WANTED: Final = Name(
    "spotrun.dev/profile-wanted",
    "on TrainingJobs: the last request for a profile, as `kubectl tjob profile` writes it",
)
ANNOTATION_INTERRUPTION_USD: Final = Name(
    "spotrun.dev/interruption-usd",
    "on worker pods: the cost of losing this worker without notice now, in USD",
)
ANNOTATION_ASKED: Final = Name(
    "spotrun.dev/asked",
    "on Workloads of Kueue: the hash of the template and the queue for which quota is requested",
)
ANNOTATION_DO_NOT_DISRUPT: Final = Name(
    "karpenter.sh/do-not-disrupt", "on worker pods: Karpenter must not consolidate their nodes"
)
ANNOTATION_SAFE_TO_EVICT: Final = Name(
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "on worker pods: cluster-autoscaler must not scale down their nodes",
)
ANNOTATION_DELETION_COST: Final = Name(
    "controller.kubernetes.io/pod-deletion-cost",
    "on worker pods: the highest cost, so that autoscalers spare them",
)

FINALIZER_METERED: Final = Name(
    "spotrun.dev/metered", "on worker pods: kept until their cost is settled in the job's status"
)
FINALIZER_SPEND: Final = Name(
    "spotrun.dev/spend",
    "on TrainingJobs under a SpendLimit: kept until the limit has counted their cost",
)

TOKEN_AUDIENCE: Final = Name("spotrun.dev", "the audience of the tokens of agents")
SERVER_NAME: Final = Name(
    "sync.spotrun.dev", "the name in the operator's certificate, for every address"
)

ENV_DIR: Final = Name(
    "SPOTRUN_DIR", "the in-memory directory in which agent and trainer exchange files"
)
ENV_NAMESPACE: Final = Name("SPOTRUN_NAMESPACE", "the namespace of the job")
ENV_JOB: Final = Name("SPOTRUN_JOB", "the name of the job")
ENV_JOB_UID: Final = Name("SPOTRUN_JOB_UID", "the UID of the job, the same after each restart")
ENV_WORKER: Final = Name("SPOTRUN_WORKER", "the worker's own pod name")
ENV_SERVER: Final = Name("SPOTRUN_SERVER", "host:port at which the operator serves agents")
ENV_CA: Final = Name(
    "SPOTRUN_CA",
    "the certificate authorities that the operator's certificate is checked with, as PEM",
)
ENV_TOKEN_FILE: Final = Name(
    "SPOTRUN_TOKEN_FILE", "the projected token with which an agent proves which pod it is"
)
ENV_CHECKPOINT: Final = Name(
    "SPOTRUN_CHECKPOINT",
    "the job's place for checkpoints: a folder in the volume, or an address",
)
ENV_CHECKPOINT_EVERY: Final = Name(
    "SPOTRUN_CHECKPOINT_EVERY",
    "the interval between checkpoints if the script gives none: auto, or 600s",
)
ENV_CHECKPOINT_KEEP: Final = Name(
    "SPOTRUN_CHECKPOINT_KEEP", "the number of checkpoints to keep if the script gives none"
)
ENV_CHECKPOINT_FROM: Final = Name(
    "SPOTRUN_CHECKPOINT_FROM",
    "the checkpoint of another training to begin from, or a place: then the newest one there",
)
ENV_UNTIL_STEP: Final = Name(
    "SPOTRUN_UNTIL_STEP", "the last step of this training, even if its script would go on"
)
ENV_LOCAL: Final = Name(
    "SPOTRUN_LOCAL", "the folder of the local tier of checkpoints, in the worker's memory or disk"
)
ENV_LOCAL_BYTES: Final = Name("SPOTRUN_LOCAL_BYTES", "the maximum size of the local tier, in bytes")
ENV_LOCAL_EVERY: Final = Name(
    "SPOTRUN_LOCAL_EVERY", "the interval between saves in the local tier: auto, or 30s"
)
ENV_LOCAL_MEDIUM: Final = Name(
    "SPOTRUN_LOCAL_MEDIUM", "Memory if the local tier counts as the worker's memory"
)
ENV_NODE: Final = Name(
    "SPOTRUN_NODE", "the worker's node: copies of the local tier go to another one"
)
ENV_GRACE_SECONDS: Final = Name(
    "SPOTRUN_GRACE_SECONDS", "the time that a training process may take to end after SIGTERM"
)
ENV_COUNT_STEPS: Final = Name(
    "SPOTRUN_COUNT_STEPS", "0 if steps of scripts without `Run` are not counted"
)
ENV_TOTAL_STEPS: Final = Name(
    "SPOTRUN_TOTAL_STEPS", "the total number of steps, if the script does not give it"
)
ENV_NOTICE_SIGNAL: Final = Name(
    "SPOTRUN_NOTICE_SIGNAL", "the signal that a script gets before a node is taken away"
)
ENV_PARAMS: Final = Name(
    "SPOTRUN_PARAMS", "the parameters of a trial of a TuningJob, a JSON object by name"
)
ENV_TERMINATION_LOG: Final = Name(
    "SPOTRUN_TERMINATION_LOG", "the file to which a worker writes its last message"
)


class Phase(Choice):
    """The stage of a job's life."""

    PENDING = "Pending", "nothing runs yet; the reason says what the job waits for"
    STARTING = "Starting", "workers are being created; the first world has not formed"
    RUNNING = "Running", "a world is training"
    RECOVERING = "Recovering", "fewer workers than min are left; replacements are on their way"
    SUSPENDED = "Suspended", "the job has no workers; suspendedBy says what suspends it"
    SUCCEEDED = "Succeeded", "the training is complete and its last checkpoint is durable"
    FAILED = "Failed", "the job has ended without being complete; the reason says why"


class SuspendedBy(Choice):
    """The cause of a suspension."""

    USER = "User", "spec.suspend is true"
    BUDGET = "Budget", "the budget is used up; raise it to continue"
    SCHEDULE = "Schedule", "the present time is outside the windows of the schedule"
    IDLE = (
        "Idle",
        "the workers used almost nothing for idle.suspendAfter; find out why, then resume the job",
    )
    QUEUE = "Queue", "Kueue has admitted no workers, or fewer than the smallest world needs"
    SPEND_LIMIT = "SpendLimit", "a SpendLimit of the namespace has too little left for the job"
    PREEMPTION = (
        "Preemption",
        "a job of higher priority uses its nodes; the job continues by itself later",
    )


class Pricing(Choice):
    """Whether the sums include everything."""

    COMPLETE = "Complete", "every worker's price is known"
    PARTIAL = "Partial", "a price or a speed is unknown, and the affected costs are not in the sums"


class ConditionType(Choice):
    """The conditions of a TrainingJob."""

    RUNNING = "Running", "a world is training"
    SUSPENDED = "Suspended", "no workers are wanted for now"
    QUEUED = (
        "Queued",
        "the job waits for a queue, for quota or for nodes; absent if it has never waited",
    )
    INTERRUPTED = "Interrupted", "capacity was taken away and is not yet replaced"
    CAPACITY_AVAILABLE = "CapacityAvailable", "all wanted workers can get capacity"
    WITHIN_BUDGET = "WithinBudget", "the money spent and reserved is below the budget"
    ON_SCHEDULE = "OnSchedule", "the deadline will be met at the present pace"
    PRICING_COMPLETE = "PricingComplete", "every worker's price is known"
    TEMPLATE_ACCEPTED = "TemplateAccepted", "a dry run accepted a pod made from the template"
    CHECKPOINT_USABLE = "CheckpointUsable", "the place for checkpoints fits the job"
    AGENTS_SUPPORTED = "AgentsSupported", "every agent speaks a version that is still served"
    CHECKPOINTS_DURABLE = (
        "CheckpointsDurable",
        "saves succeed; absent if none has failed; the message has the newest checkpoint's age",
    )
    IDLE = "Idle", "the workers have used almost nothing for long, although a world trains"
    DECIDED = "Decided", "the operator can decide what the job needs; absent if it always could"
    WRITTEN = (
        "Written",
        "the API server accepts the operator's writes; present only while it does not",
    )
    SIZE_ACCEPTED = "SizeAccepted", "the script accepts other sizes; present only while it does not"
    EVEN_SPEED = (
        "EvenSpeed",
        "no worker is much slower than the others; present only while one is",
    )
    COMPLETE = "Complete", "the training has succeeded"
    FAILED = "Failed", "the job has ended without being complete"


class Reason(Choice):
    """The reasons in conditions, in status.reason and in events."""

    TRAINING = "Training", "a world is training"
    WAITING_FOR_CAPACITY = "WaitingForCapacity", "no pool has room for the smallest world"
    WAITING_FOR_WORKERS = "WaitingForWorkers", "the workers' pods are created and start"
    CANNOT_START = (
        "CannotStart",
        "Kubernetes cannot start the workers' containers; the message says why",
    )
    WAITING_FOR_GANG = (
        "WaitingForGang",
        "another job gets all nodes of its gang first: by priority, then by age",
    )
    PLACED = "Placed", "new workers are requested from capacity pools"
    BACK_TO_SPOT = "BackToSpot", "spot capacity replaces on-demand capacity"
    FALLBACK = "Fallback", "on-demand capacity is used where spot capacity is not available"
    BETTER_POOL = (
        "BetterPool",
        "a worker waited too long for a node, and is requested from other pools",
    )
    REPLICA_MOVED = (
        "ReplicaMoved",
        "the place of a replica has no capacity for all its workers: all or some of them move",
    )
    RESIZING = "Resizing", "the next world has another size"
    SIZE_REFUSED = (
        "SizeRefused",
        "the script fails to start with this number of workers, but trained with another",
    )
    BATCH_CHANGED = (
        "BatchChanged",
        "a script without `Run` trains at another size, so with another global batch",
    )
    TEMPLATE_CHANGED = "TemplateChanged", "a worker was made from an older template"
    RECLAIMED = "Reclaimed", "the cloud took a spot node back"
    NODE_LOST = "NodeLost", "a node went away without a notice"
    DRAINED = "Drained", "somebody drained a node"
    PREEMPTED = "Preempted", "a pod of higher priority took a worker's place"
    GIVES_WAY = "GivesWay", "a job of higher priority that preempts needs the nodes of its workers"
    MAKES_ROOM = (
        "MakesRoom",
        "jobs of lower priority give it nodes, or the message says why none does",
    )
    REJECTED = (
        "Rejected",
        "a node did not accept a worker that was bound to it; the message says why",
    )
    OOM_KILLED = "OOMKilled", "a worker used more memory than its limit"
    EVICTED = "Evicted", "a node evicted a worker for what the worker itself used"
    EXIT_CODE = "ExitCode", "the training process ended with an error"
    FAULTY_DEVICE = "FaultyDevice", "a worker's device failed, or computed wrong numbers"
    UNUSABLE_IMAGE = "UnusableImage", "the image lacks what a training needs; the job has failed"
    HUNG = "Hung", "no step was finished for longer than failures.hangAfter"
    TOO_MANY_RESTARTS = "TooManyRestarts", "failures.maxRestarts is used up"
    FATAL_EXIT_CODE = "FatalExitCode", "the exit code is one of failures.fatalExitCodes"
    TEMPLATE_REFUSED = "TemplateRefused", "Kubernetes refuses pods of this template"
    QUOTA_EXCEEDED = "QuotaExceeded", "a ResourceQuota has no room for the smallest world"
    QUEUED = (
        "Queued",
        "the queue of Kueue that the job names has not admitted its workers, or not all of them",
    )
    EVICTED_BY_QUEUE = (
        "EvictedByQueue",
        "Kueue took the job's quota back: a checkpoint is saved, then its workers are removed",
    )
    NAME_TAKEN = (
        "NameTaken",
        "an object that is not the operator's has a name that the operator needs",
    )
    WRITE_FAILED = "WriteFailed", "a write fails again and again; the message quotes the answer"
    LABELS_RESTORED = (
        "LabelsRestored",
        "somebody changed the operator's labels of a worker; the operator restored them",
    )
    UNDECIDED = (
        "Undecided",
        "the operator fails when it decides about the job; the operator's log has the error",
    )
    LEDGER_REFUSED = "LedgerRefused", "the status is invalid: no operator can have written it"
    VOLUME_NOT_SHARED = "VolumeNotShared", "a ReadWriteOnce volume cannot serve several workers"
    PROCESSES_UNKNOWN = "ProcessesUnknown", "claimed devices cannot be counted"
    AGENT_TOO_OLD = "AgentTooOld", "the image's agent speaks a version that is no longer served"
    SLOW_WORKER = "SlowWorker", "all workers wait for one that takes much longer"
    SAVE_FAILED = "SaveFailed", "checkpoints cannot be written; the message says why"
    PRICE_UNKNOWN = (
        "PriceUnknown",
        "no price source knows a pool; the message names the missing row",
    )
    BUDGET_WARNING = "BudgetWarning", "a level of budget.warnAtPercent was passed"
    BUDGET_EXCEEDED = "BudgetExceeded", "budget.maxCostUsd is used up"
    RATE_LIMITED = "RateLimited", "budget.maxUsdPerHour allows no more workers"
    SPEND_LIMITED = "SpendLimited", "a SpendLimit of the namespace allows no (more) workers"
    OUTSIDE_SCHEDULE = "OutsideSchedule", "the present time is outside the windows of the schedule"
    DEADLINE_AT_RISK = "DeadlineAtRisk", "the deadline will be missed at the present pace"
    DEADLINE_MISSED = "DeadlineMissed", "the deadline has passed"
    ON_PACE = "OnPace", "the deadline will be met"
    ONLY_SPOT = (
        "OnlySpot",
        "capacity: Spot may be unavailable for any length of time, so no deadline can be kept",
    )
    TOTAL_UNKNOWN = "TotalUnknown", "the trainer does not report the total number of steps"
    NOTHING_USED = "NothingUsed", "the workers train but use almost nothing of their resources"
    IDLE = "Idle", "the workers used almost nothing for idle.suspendAfter, so they were removed"
    SUSPENDED_BY_USER = "SuspendedByUser", "spec.suspend is true"
    COST_CORRECTED = "CostCorrected", "a later finding has changed the cost that was shown"
    DELETED = "Deleted", "the job was deleted while it cost something"
    STAGE_BEGUN = (
        "StageBegun",
        "the next of spec.stages begins, from the checkpoint of the stage before",
    )
    STAGE_ENDED = "StageEnded", "the last of spec.stages has ended"
    GOAL_REACHED = "GoalReached", "a reported metric has reached the goal of stopWhen"
    NO_IMPROVEMENT = (
        "NoImprovement",
        "a reported metric did not improve for as long as stopWhen says",
    )
    COMPLETED = "Completed", "the training is complete; the message names the last checkpoint"


class ScalingReason(Choice):
    """The reason why a job got or kept a size, or was denied one: in status.scaling and events."""

    INITIAL_SIZE = "InitialSize", "the first size, before anything was measured"
    UTILIZATION_HIGH = (
        "UtilizationHigh",
        "a utilization is above its target, and more workers help enough",
    )
    UTILIZATION_LOW = "UtilizationLow", "every utilization is below its target"
    PAYS_OFF = (
        "PaysOff",
        "another size does the same work for less, including the value of your time",
    )
    EFFICIENCY_LOW = "EfficiencyLow", "the last workers bring less than scaling.minEfficiency"
    PROBING = (
        "Probing",
        "with so few workers it does not show whether more workers would still wait",
    )
    NEEDED_FOR_DEADLINE = "NeededForDeadline", "the deadline cannot be met with fewer workers"
    REPLICAS_SET = (
        "ReplicasSet",
        "somebody else wrote workers.replicas; scaling continues from there",
    )
    WITHIN_TOLERANCE = "WithinTolerance", "utilization is within the tolerance of its target"
    BEST_SIZE = "BestSize", "no other size does the same work for less"
    NO_BENEFIT = "NoBenefit", "utilization asks for another size, but that would bring too little"
    TRIED_BEFORE = "TriedBefore", "this number of workers was tried recently and was too large"
    NOT_REPAID = "NotRepaid", "the change would not repay its stall in the time that is left"
    AT_LARGEST_SIZE = "AtLargestSize", "workers.max, sizes or the microbatches allow no more"
    AT_SMALLEST_SIZE = "AtSmallestSize", "workers.min or sizes allow no fewer"
    NO_CAPACITY = "NoCapacity", "more workers cannot get capacity at present"
    BUDGET_LIMIT = "BudgetLimit", "budget.maxUsdPerHour allows no more"
    NO_UTILIZATION = "NoUtilization", "no utilization is known of any resource that has a target"
