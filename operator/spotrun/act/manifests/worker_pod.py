"""The pod of one worker. Pure: a function of the job, the worker's id and the settings."""

from collections.abc import Mapping

from spotrun.act.manifests import local_tier
from spotrun.act.manifests.affinity import affinity, tolerations
from spotrun.act.manifests.injection import image_for, inject
from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.act.manifests.replica_affinity import with_replica
from spotrun.act.manifests.security import container_security, pod_security
from spotrun.act.manifests.worker_settings import Settings
from spotrun.api import names
from spotrun.api.spec.checkpoint import Checkpoint
from spotrun.api.spec.template import TRAINER
from spotrun.observe.template_defaults import processes
from spotrun.state.actions import Create
from spotrun.state.names import checkpoint_folder, worker_name
from spotrun.state.queue import ANY_NODES, Flavor
from spotrun.state.snapshot import JobSnapshot

DIRECTORY = "/run/spotrun"
TOKEN_DIRECTORY = "/var/run/secrets/spotrun.dev"  # noqa: S105 - a path
TOKEN_SECONDS = 3600
CHECKPOINTS = "/checkpoints"
"""The path at which the volume is mounted. Each job has a folder of its own in it, because several
jobs may name one claim, and claims of several namespaces may be one export."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the pod's own, an in-memory volume

_NO_LIMIT = 1_000_000
"""torchrun's own count of restarts must never end a worker: the operator counts failures, and
forgets them after an hour of progress, which torchrun does not."""
_TERMINATION_LOG = "/dev/termination-log"
_LAST_WORDS_SECONDS = 10
"""The part of the grace period that torchrun leaves for the agent after it has killed its
processes."""
_SHUTDOWN_TIMEOUT = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
"""The variable that says how long torchrun waits for its processes to end; older versions ignore it
and wait 30 s."""
_MOST_DELETION_COST = "2147483647"

_AUTOSCALERS = {
    names.ANNOTATION_DO_NOT_DISRUPT: "true",
    names.ANNOTATION_SAFE_TO_EVICT: "false",
    names.ANNOTATION_DELETION_COST: _MOST_DELETION_COST,
}


def worker_pod(job: JobSnapshot, worker: Create, settings: Settings) -> Manifest:
    """Return the manifest of a worker's pod."""
    injected = image_for(job, settings)
    return plain(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": _metadata(job, worker, injected),
            "spec": _spec(job, worker, settings, injected),
        }
    )


def owned_metadata(job: JobSnapshot, name: str) -> Manifest:
    """Return the metadata that all objects of a job share."""
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": {
            names.LABEL_JOB: job.name,
            names.LABEL_JOB_UID: job.uid,
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
        },
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.TRAINING_JOB,
                "name": job.name,
                "uid": job.uid,
                "controller": True,
                # A foreground deletion waits until the workers are charged and gone. Some API
                # servers allow this field only with `update` on trainingjobs/finalizers.
                "blockOwnerDeletion": True,
            }
        ],
    }


def _metadata(job: JobSnapshot, worker: Create, injected: str) -> Manifest:
    given, place = job.spec.workers.template.metadata, worker.place
    ours = owned_metadata(job, worker_name(job.name, job.uid, worker.worker_id))
    labels = {names.LABEL_WORKER_ID: str(worker.worker_id), names.LABEL_TEMPLATE: job.template}
    if place.capacity is not None:
        labels[names.LABEL_CAPACITY] = place.capacity.value
    if job.spec.workers.per_replica > 1:
        labels[names.LABEL_SLOT] = str(worker.slot)
    if worker.lent:
        labels[names.LABEL_LENT] = "true"
    if worker.replica is not None:
        labels[names.LABEL_REPLICA] = str(worker.replica)
    trainer = job.spec.workers.template.spec.trainer
    given_names = {
        names.ANNOTATION_TRAINER: trainer.name if trainer is not None else "",
        names.ANNOTATION_POOLS: ",".join(place.required),
        names.ANNOTATION_ZONE: place.zone,
        names.ANNOTATION_AVOIDS: ",".join(worker.avoid_nodes),
        names.ANNOTATION_DEVICES: str(job.claimed or ""),
    }
    annotations = {key: value for key, value in given_names.items() if value}
    annotations[names.ANNOTATION_INJECTED] = injected  # also if empty: the operator reads it back
    return {
        **ours,
        "labels": {
            **job.cost_labels,
            **((given and given.labels) or {}),
            **ours["labels"],
            **labels,
        },
        "annotations": {**_AUTOSCALERS, **((given and given.annotations) or {}), **annotations},
        "finalizers": [names.FINALIZER_METERED],
    }


def _spec(job: JobSnapshot, worker: Create, settings: Settings, injected: str) -> Manifest:
    spec: Manifest = job.spec.workers.template.spec.manifest()
    grace_seconds = spec.get("terminationGracePeriodSeconds") or 0
    spec |= {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(grace_seconds, settings.grace_seconds),
        "automountServiceAccountToken": spec.get("automountServiceAccountToken") or False,
        **_flavored(job, spec),
        **_lent(job, worker),
        "affinity": with_replica(
            affinity(
                spec.get("affinity"),
                job.spec.placement.capacity,
                worker.avoid_nodes,
                worker.place,
                job.market,
            ),
            worker,
            job.uid,
            job.spec.placement.topology,
        ),
        "tolerations": tolerations(
            (*(spec.get("tolerations") or ()), *_flavor(job).tolerations),
            job.spec,
            unhealthy_seconds=settings.toleration_seconds,
            place=worker.place,
            market=job.market,
        ),
        "securityContext": pod_security(
            spec.get("securityContext"), restricted=settings.restricted
        ),
    }
    trainer = trainer_of(spec)
    ours = _environment(job, worker.worker_id, settings) | _ending(spec, trainer)
    trainer |= _training(job, settings, trainer, ours)
    mounted = {mount["mountPath"].rstrip("/") for mount in trainer.get("volumeMounts") or ()}
    added = [
        (mount, volume) for mount, volume in _volumes(job) if mount["mountPath"] not in mounted
    ]
    own = spec.get("volumes") or ()
    claims = {_claim_of(volume): volume["name"] for volume in own}
    claims.pop("", None)
    trainer["volumeMounts"] = [
        *(trainer.get("volumeMounts") or ()),
        *({**mount, "name": claims.get(_claim_of(one), one["name"])} for mount, one in added),
    ]
    spec["volumes"] = [*own, *(one for _, one in added if _claim_of(one) not in claims)]
    if injected:
        inject(spec, trainer, injected)
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        container["securityContext"] = container_security(
            container.get("securityContext"), restricted=settings.restricted
        )
    return spec


def _flavor(job: JobSnapshot) -> Flavor:
    return job.queue.flavor if job.queue is not None else ANY_NODES


def _flavored(job: JobSnapshot, spec: Manifest) -> Manifest:
    """Return the user's node selector with the labels of the flavor that the queue has chosen."""
    labels = _flavor(job).node_labels
    return {"nodeSelector": {**(spec.get("nodeSelector") or {}), **labels}} if labels else {}


def _lent(job: JobSnapshot, worker: Create) -> Manifest:
    lend = job.spec.placement.lend
    return {"priorityClassName": lend.priority_class_name} if worker.lent and lend else {}


def trainer_of(spec: Manifest) -> Manifest:
    """Return the container that trains."""
    containers: list[Manifest] = spec["containers"]
    if len(containers) == 1:
        return containers[0]
    return next(container for container in containers if container["name"] == TRAINER)


def _training(
    job: JobSnapshot, settings: Settings, trainer: Manifest, values: dict[str, str]
) -> Manifest:
    workers = job.spec.workers
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    ours: list[Manifest] = [
        address,
        *local_tier.node(job),
        *({"name": str(k), "value": str(v)} for k, v in values.items()),
    ]
    reserved = {variable["name"] for variable in ours}
    theirs = [one for one in trainer.get("env") or () if one.get("name") not in reserved]
    return {
        "command": [
            "torchrun",
            "--rdzv-backend=spotrun",
            f"--rdzv-id={job.uid}",
            f"--rdzv-endpoint={settings.server}",
            f"--nnodes={workers.min}:{workers.max}",
            f"--nproc-per-node={processes(job)}",
            f"--max-restarts={_NO_LIMIT}",
            # Older versions of torchrun check the membership only every 5 s.
            "--monitor-interval=0.1",
        ],
        # Ours come first: later variables in the list may refer to them.
        "env": [*ours, *theirs],
    }


def _environment(job: JobSnapshot, worker_id: int, settings: Settings) -> dict[str, str]:
    values: dict[str, str] = {
        names.ENV_DIR: DIRECTORY,
        names.ENV_NAMESPACE: job.namespace,
        names.ENV_JOB: job.name,
        names.ENV_JOB_UID: job.uid,
        names.ENV_WORKER: worker_name(job.name, job.uid, worker_id),
        names.ENV_SERVER: settings.server,
        names.ENV_CA: settings.ca_pem,
        names.ENV_TOKEN_FILE: f"{TOKEN_DIRECTORY}/token",
    }
    values |= _script_settings(job.script)
    place = job.spec.checkpoint
    if place is not None:
        folder = checkpoint_folder(job.name, job.script.get(names.ANNOTATION_CHECKPOINT_FOLDER))
        values[names.ENV_CHECKPOINT] = _place_of(place, job.namespace, folder)
        values[names.ENV_CHECKPOINT_EVERY] = local_tier.seconds_or_auto(place.every)
        values[names.ENV_CHECKPOINT_KEEP] = str(place.keep)
        if (other := place.begin_from) is not None:
            parts = (_place_of(place, job.namespace, other.job), other.checkpoint)
            values[names.ENV_CHECKPOINT_FROM] = "/".join(part for part in parts if part)
    return values | local_tier.settings(job)


def _place_of(checkpoint: Checkpoint, namespace: str, name: str) -> str:
    """Return a job's own folder: several jobs may name one claim, or one bucket."""
    root = CHECKPOINTS if checkpoint.uri is None else str(checkpoint.uri).rstrip("/")
    return f"{root}/{namespace}/{name}"


def _script_settings(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for what the job's annotations say about its script."""
    values: dict[str, str] = {}
    if annotations.get(names.ANNOTATION_COUNT_STEPS) == "false":
        values[names.ENV_COUNT_STEPS] = "0"
    if total := annotations.get(names.ANNOTATION_TOTAL_STEPS):
        values[names.ENV_TOTAL_STEPS] = total
    if signal := annotations.get(names.ANNOTATION_NOTICE_SIGNAL):
        values[names.ENV_NOTICE_SIGNAL] = signal
    return values


def _ending(spec: Manifest, trainer: Manifest) -> dict[str, str]:
    """Return the path of the termination log, and the time that processes have before SIGKILL."""
    seconds = str(max(spec["terminationGracePeriodSeconds"] - _LAST_WORDS_SECONDS, 1))
    return {
        names.ENV_TERMINATION_LOG: trainer.get("terminationMessagePath") or _TERMINATION_LOG,
        names.ENV_GRACE_SECONDS: seconds,
        _SHUTDOWN_TIMEOUT: seconds,
    }


def _volumes(job: JobSnapshot) -> list[tuple[Manifest, Manifest]]:
    """Return each volume with its mount in the container that trains."""
    token = {
        "path": "token",
        "audience": str(names.TOKEN_AUDIENCE),
        "expirationSeconds": TOKEN_SECONDS,
    }
    found = [
        # The container runtime's /dev/shm has 64 MB: too little for data loaders.
        _volume("shm", SHARED_MEMORY, {"emptyDir": {"medium": "Memory"}}),
        _volume("dir", DIRECTORY, {"emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}),
        _volume(
            "token",
            TOKEN_DIRECTORY,
            {"projected": {"sources": [{"serviceAccountToken": token}]}},
            read_only=True,
        ),
    ]
    place = job.spec.checkpoint
    if place is not None and place.volume is not None:
        found.append(_volume("checkpoints", CHECKPOINTS, place.volume.manifest()))
    found += [_volume("local", local_tier.PATH, one) for one in local_tier.sources(job)]
    return found


def _claim_of(volume: Manifest) -> str:
    """Return the claim of a writable volume; empty for all others.

    The kubelet of Kubernetes 1.32 never starts a pod in which two volumes name one claim.
    """
    claim = volume.get("persistentVolumeClaim") or {}
    return "" if claim.get("readOnly") else str(claim.get("claimName", ""))


def _volume(
    name: str, path: str, source: Manifest, *, read_only: bool = False
) -> tuple[Manifest, Manifest]:
    mount: Manifest = {"name": f"spotrun-{name}", "mountPath": path}
    if read_only:
        mount["readOnly"] = True
    return mount, {"name": f"spotrun-{name}", **source}
