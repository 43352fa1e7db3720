"""Kubernetes objects, decoded only in the fields that are read somewhere.

A typed decode of these few fields takes 15 us per event; a full model takes 230-600 us.
"""

import msgspec

from spotrun.api.names import (
    ANNOTATION_AVOIDS,
    ANNOTATION_CHECKPOINT_FOLDER,
    ANNOTATION_CHECKPOINT_WANTED,
    ANNOTATION_COST_LOST_WORK_USD,
    ANNOTATION_COST_ON_DEMAND_USD,
    ANNOTATION_COST_SAVED_USD,
    ANNOTATION_COST_USD,
    ANNOTATION_COST_USD_PER_HOUR,
    ANNOTATION_COUNT_STEPS,
    ANNOTATION_DEVICES,
    ANNOTATION_INJECTED,
    ANNOTATION_INTERRUPTION_USD,
    ANNOTATION_KEPT_REPORT,
    ANNOTATION_NOTICE_SIGNAL,
    ANNOTATION_POOLS,
    ANNOTATION_PROFILE_WANTED,
    ANNOTATION_TOTAL_STEPS,
    ANNOTATION_TRAINER,
    ANNOTATION_ZONE,
    GROUP,
    LABEL_COST_CENTER,
    LABEL_PREBUILT,
    LABEL_PROJECT,
    LABEL_QUEUE,
    LABEL_QUEUE_PRIORITY,
    LABEL_TEAM,
    LABEL_TUNING_JOB,
    VERSION,
)
from spotrun.kube.resource import Meta, Resource
from spotrun.kube.watch.kopf_feed import Kind

TRAINING_JOBS = Resource(GROUP, VERSION, "trainingjobs")
PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")
CONFIG_MAPS = Resource("", "v1", "configmaps")
CAPACITY_POOLS = Resource(GROUP, VERSION, "capacitypools")
TUNING_JOBS = Resource(GROUP, VERSION, "tuningjobs")
SPEND_LIMITS = Resource(GROUP, VERSION, "spendlimits")
NAMESPACES = Resource("", "v1", "namespaces")
EVENTS = Resource("events.k8s.io", "v1", "events")
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods")

FED = (
    Kind(TRAINING_JOBS, "TrainingJob"),
    Kind(CAPACITY_POOLS, "CapacityPool", False),
    Kind(TUNING_JOBS, "TuningJob"),
)
"""The kinds whose changes are passed to kopf."""


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to the object that owns this one."""

    uid: str
    controller: bool = False
    name: str = ""


class CostAnnotations(msgspec.Struct, frozen=True):
    """The annotations of a job that the operator writes; others may be long, and are skipped."""

    usd: str | None = msgspec.field(default=None, name=str(ANNOTATION_COST_USD))
    usd_per_hour: str | None = msgspec.field(default=None, name=str(ANNOTATION_COST_USD_PER_HOUR))
    on_demand_usd: str | None = msgspec.field(default=None, name=str(ANNOTATION_COST_ON_DEMAND_USD))
    saved_usd: str | None = msgspec.field(default=None, name=str(ANNOTATION_COST_SAVED_USD))
    lost_work_usd: str | None = msgspec.field(default=None, name=str(ANNOTATION_COST_LOST_WORK_USD))
    kept_report: str | None = msgspec.field(default=None, name=str(ANNOTATION_KEPT_REPORT))


class JobAnnotations(CostAnnotations, frozen=True):
    """The annotations on cost, and those by which users say how the operator treats a job."""

    count_steps: str | None = msgspec.field(default=None, name=str(ANNOTATION_COUNT_STEPS))
    total_steps: str | None = msgspec.field(default=None, name=str(ANNOTATION_TOTAL_STEPS))
    notice_signal: str | None = msgspec.field(default=None, name=str(ANNOTATION_NOTICE_SIGNAL))
    checkpoint_folder: str | None = msgspec.field(
        default=None, name=str(ANNOTATION_CHECKPOINT_FOLDER)
    )
    checkpoint_wanted: str | None = msgspec.field(
        default=None, name=str(ANNOTATION_CHECKPOINT_WANTED)
    )
    profile_wanted: str | None = msgspec.field(default=None, name=str(ANNOTATION_PROFILE_WANTED))
    prebuilt: str | None = msgspec.field(default=None, name=str(LABEL_PREBUILT))


class CostLabels(msgspec.Struct, frozen=True):
    """The labels of a job by which people group costs."""

    team: str | None = msgspec.field(default=None, name=str(LABEL_TEAM))
    cost_center: str | None = msgspec.field(default=None, name=str(LABEL_COST_CENTER))
    project: str | None = msgspec.field(default=None, name=str(LABEL_PROJECT))


class JobLabels(CostLabels, frozen=True):
    """The labels of a job that the operator reads."""

    tuning_job: str | None = msgspec.field(default=None, name=str(LABEL_TUNING_JOB))
    queue: str | None = msgspec.field(default=None, name=str(LABEL_QUEUE))
    queue_priority: str | None = msgspec.field(default=None, name=str(LABEL_QUEUE_PRIORITY))
    prebuilt: str | None = msgspec.field(default=None, name=str(LABEL_PREBUILT))


class OwnedMeta(Meta, frozen=True, rename="camel"):
    """The metadata of an object that another one may own."""

    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def owner_uid(self) -> str | None:
        """The UID of the object that controls this one."""
        return next((owner.uid for owner in self.owner_references if owner.controller), None)

    @property
    def owner_name(self) -> str:
        """The name of the object that controls this one; empty where none does."""
        return next((owner.name for owner in self.owner_references if owner.controller), "")


class JobMeta(OwnedMeta, frozen=True, rename="camel"):
    """A TrainingJob's metadata."""

    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    annotations: JobAnnotations = JobAnnotations()
    labels: JobLabels = JobLabels()
    finalizers: tuple[str, ...] = ()


class JobObject(msgspec.Struct, frozen=True):
    """A TrainingJob; spec and status stay JSON until they are needed, and are parsed once."""

    metadata: JobMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class PodAnnotations(msgspec.Struct, frozen=True):
    """The annotations that the operator writes on its pods and reads again."""

    pools: str = msgspec.field(default="", name=str(ANNOTATION_POOLS))
    zone: str = msgspec.field(default="", name=str(ANNOTATION_ZONE))
    avoids: str = msgspec.field(default="", name=str(ANNOTATION_AVOIDS))
    devices: str = msgspec.field(default="", name=str(ANNOTATION_DEVICES))
    trainer: str = msgspec.field(default="", name=str(ANNOTATION_TRAINER))
    injected: str = msgspec.field(default="", name=str(ANNOTATION_INJECTED))
    interruption_usd: str = msgspec.field(default="", name=str(ANNOTATION_INTERRUPTION_USD))


class PodMeta(OwnedMeta, frozen=True, rename="camel"):
    """A pod's metadata."""

    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: PodAnnotations = PodAnnotations()
    finalizers: tuple[str, ...] = ()


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """The end of a container."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class Waiting(msgspec.Struct, frozen=True):
    """The reason why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container; whether it runs is not read."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True):
    """One container of a pod."""

    name: str
    image: str = ""
    state: ContainerState = ContainerState()


class ObjectCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of a pod or a node."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's status."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    nominated_node_name: str = ""
    conditions: tuple[ObjectCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Requirements(msgspec.Struct, frozen=True):
    """The resources of a container; the API server copies limits to missing requests."""

    requests: dict[str, str] = msgspec.field(default_factory=dict)
    limits: dict[str, str] = msgspec.field(default_factory=dict)


class ContainerSpec(msgspec.Struct, frozen=True, rename="camel"):
    """One container in a pod's spec."""

    resources: Requirements = Requirements()
    restart_policy: str | None = None
    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's spec: its node, and the resources it takes there."""

    node_name: str | None = None
    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] = ()
    overhead: dict[str, str] = msgspec.field(default_factory=dict)


class PodObject(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeMeta(Meta, frozen=True, rename="camel"):
    """A node's metadata."""

    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Taint(msgspec.Struct, frozen=True):
    """The reason why pods should keep away from a node."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True):
    """A node's spec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True):
    """A node's status."""

    conditions: tuple[ObjectCondition, ...] = ()
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)


class NodeObject(msgspec.Struct, frozen=True):
    """A node."""

    metadata: NodeMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PoolMeta(Meta, frozen=True, rename="camel"):
    """A CapacityPool's metadata."""

    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class PoolObject(msgspec.Struct, frozen=True):
    """A CapacityPool; spec and status stay JSON until they are needed, and are parsed once."""

    metadata: PoolMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class TuningMeta(Meta, frozen=True, rename="camel"):
    """A TuningJob's metadata."""

    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


class TuningObject(msgspec.Struct, frozen=True):
    """A TuningJob; spec and status stay JSON until they are needed."""

    metadata: TuningMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class SpendLimitMeta(Meta, frozen=True, rename="camel"):
    """A SpendLimit's metadata."""

    generation: int = 0


class SpendLimitObject(msgspec.Struct, frozen=True):
    """A SpendLimit; spec and status stay JSON until they are needed."""

    metadata: SpendLimitMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class NamespaceMeta(Meta, frozen=True, rename="camel"):
    """A namespace's metadata."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)


class NamespaceObject(msgspec.Struct, frozen=True):
    """A namespace."""

    metadata: NamespaceMeta


class Regarding(msgspec.Struct, frozen=True):
    """The object that an event concerns."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class EventObject(msgspec.Struct, frozen=True, rename="camel"):
    """An event that another component has written."""

    metadata: Meta
    regarding: Regarding = Regarding()
    reason: str = ""
    note: str = ""
    event_time: str | None = None
    deprecated_last_timestamp: str | None = None  # set on events written as core events


class ContainerMetrics(msgspec.Struct, frozen=True):
    """The usage of one container of a pod."""

    name: str = ""
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class PodMetricsObject(msgspec.Struct, frozen=True):
    """The usage of a pod from metrics.k8s.io; it is not stored, so it has no version."""

    metadata: Meta
    timestamp: str = ""
    containers: tuple[ContainerMetrics, ...] = ()


class ConfigMapObject(msgspec.Struct, frozen=True):
    """A ConfigMap: texts by name."""

    metadata: Meta
    data: dict[str, str] = msgspec.field(default_factory=dict)
