"""TrainingJobs for the guard: what each rule refuses, and what all of them let pass."""

from dataclasses import dataclass
from typing import Any

from tests.support.api.manifest_cases import (
    CONTAINERS,
    FULL,
    TEMPLATE,
    TRAINER,
    Manifest,
    changed,
    job,
)

# Who asks. Each may write TrainingJobs everywhere; what else they may is their right to be tested.
AUTHOR = "author"  # may create pods
STRANGER = "stranger"  # may not
USER_OF_ACCOUNT = "user-of-account"  # may create pods and use the account "trains"
IMPERSONATOR = "impersonator"  # may create pods and impersonate the account "trains"
KEEPER_OF_ONE = "keeper-of-one"  # may create pods and read the secret "storage"
KEEPER_OF_ALL = "keeper-of-all"  # may create pods and read all secrets

POD = f"{TEMPLATE}.spec"


def pod(**fields: Any) -> Manifest:
    """The smallest job, with fields of the pod's spec."""
    return job({f"{POD}.{name}": value for name, value in fields.items()})


def trainer(**fields: Any) -> Manifest:
    """The smallest job, with fields of its container."""
    return job({f"{CONTAINERS}.0.{name}": value for name, value in fields.items()})


def side(kind: str, **fields: Any) -> Manifest:
    """The smallest job with one more container of some kind."""
    return pod(**{kind: [{"name": "side", "image": "i", **fields}]})


def csi(*secrets: str) -> list[dict[str, Any]]:
    """Volumes of a driver that is told to use secrets."""
    return [
        {"name": s, "csi": {"driver": "d.example.com", "nodePublishSecretRef": {"name": s}}}
        for s in secrets
    ]


def checkpoints_on_csi(secret: str) -> Manifest:
    """The smallest job with such a volume for its checkpoints."""
    (volume,) = csi(secret)
    return job({"checkpoint.volume.csi": volume["csi"]})


@dataclass(frozen=True)
class Refused:
    """A job that breaks exactly one rule: the one whose message contains these words."""

    name: str
    says: str
    job: Manifest
    user: str = AUTHOR


_PRIVILEGED = {"securityContext": {"privileged": True}}
_ADMIN = {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}
_HOST_PORT = {"ports": [{"containerPort": 80, "hostPort": 80}]}
_HOST_PROCESS = {"windowsOptions": {"hostProcess": True}}
_EXISTS = {"operator": "Exists"}

_PODS = "you may not create pods"
_ACCOUNT = "you may not use the service account"
_SECRET = "you may not read the secret"  # noqa: S105 - a message
_LARGE = "too large to be checked"
_PATH = "hostPath volumes are not allowed"
_PRIVILEGE = "privileged containers are not allowed"
_CAPABILITIES = "only harmless capabilities"
_PORT = "hostPort is not allowed"
_WINDOWS = "hostProcess is not allowed"
_KEYLESS = "a toleration without a key"
_CONTROL = "do not run on control planes"


def _adds(*names: str) -> Manifest:
    return trainer(securityContext={"capabilities": {"add": ["CHOWN", *names]}})


def _tolerates(**toleration: Any) -> Manifest:
    return pod(tolerations=[{"key": "nvidia.com/gpu", **_EXISTS}, toleration])


REFUSED = (
    Refused("an author who may not create pods", _PODS, job(), STRANGER),
    Refused("another account", _ACCOUNT, pod(serviceAccountName="trains")),
    Refused("the account by its old name", _ACCOUNT, pod(serviceAccount="trains")),
    Refused(
        "the old name where the new one is empty",
        _ACCOUNT,
        pod(serviceAccountName="", serviceAccount="trains"),
    ),
    Refused("somebody else's account", _ACCOUNT, pod(serviceAccountName="other"), USER_OF_ACCOUNT),
    Refused("a secret for checkpoints", _SECRET, checkpoints_on_csi("storage")),
    Refused("a secret for a volume", _SECRET, pod(volumes=csi("storage"))),
    Refused("another secret", _SECRET, pod(volumes=csi("other")), KEEPER_OF_ONE),
    Refused("one's own and another", _SECRET, pod(volumes=csi("storage", "other")), KEEPER_OF_ONE),
    Refused("a secret without a name", _SECRET, pod(volumes=csi("")), KEEPER_OF_ONE),
    Refused("too many volumes", _LARGE, pod(volumes=[{"name": "a"}] * 513)),
    Refused("too many tolerations", _LARGE, pod(tolerations=[{"key": "a"}] * 513)),
    Refused("too many init containers", _LARGE, pod(initContainers=[TRAINER] * 64)),
    Refused("too many ports", _LARGE, trainer(ports=[{"containerPort": 1}] * 65)),
    Refused("too many capabilities", _LARGE, _adds(*["CHOWN"] * 64)),
    Refused("the node's network", "hostNetwork is not allowed", pod(hostNetwork=True)),
    Refused("the same as text", "hostNetwork is not allowed", pod(hostNetwork="true")),
    Refused("the node's processes", "hostPID is not allowed", pod(hostPID=True)),
    Refused("the node's shared memory", "hostIPC is not allowed", pod(hostIPC=True)),
    Refused("the node's files", _PATH, pod(volumes=[{"name": "a", "hostPath": {"path": "/"}}])),
    Refused("a path that is nothing", _PATH, pod(volumes=[{"name": "a", "hostPath": {}}])),
    Refused("privilege", _PRIVILEGE, trainer(**_PRIVILEGED)),
    Refused("a privileged init container", _PRIVILEGE, side("initContainers", **_PRIVILEGED)),
    Refused("a privileged debugger", _PRIVILEGE, side("ephemeralContainers", **_PRIVILEGED)),
    Refused("a container of the host", _WINDOWS, trainer(securityContext=_HOST_PROCESS)),
    Refused("a pod of the host", _WINDOWS, pod(securityContext=_HOST_PROCESS)),
    Refused(
        "an init container of the host",
        _WINDOWS,
        side("initContainers", securityContext=_HOST_PROCESS),
    ),
    Refused("a capability", _CAPABILITIES, _adds("SYS_ADMIN")),
    Refused("all capabilities", _CAPABILITIES, _adds("ALL")),
    Refused("a capability in lower case", _CAPABILITIES, _adds("sys_admin")),
    Refused("a capability with its prefix", _CAPABILITIES, _adds("CAP_SYS_ADMIN")),
    Refused("an init container's capability", _CAPABILITIES, side("initContainers", **_ADMIN)),
    Refused("a debugger's capability", _CAPABILITIES, side("ephemeralContainers", **_ADMIN)),
    Refused(
        "an open /proc", "procMount must be", trainer(securityContext={"procMount": "Unmasked"})
    ),
    Refused("a port of the node", _PORT, trainer(**_HOST_PORT)),
    Refused("an init container's port", _PORT, side("initContainers", **_HOST_PORT)),
    Refused("a named node", "nodeName is not allowed", pod(nodeName="a")),
    Refused(
        "a system priority", "begin with system-", pod(priorityClassName="system-node-critical")
    ),
    Refused("a toleration of everything", _KEYLESS, _tolerates(**_EXISTS)),
    Refused("the same with an empty key", _KEYLESS, _tolerates(key="", **_EXISTS)),
    Refused(
        "a control plane",
        _CONTROL,
        _tolerates(key="node-role.kubernetes.io/control-plane", **_EXISTS),
    ),
    Refused("an old one", _CONTROL, _tolerates(key="node-role.kubernetes.io/master", **_EXISTS)),
)


@dataclass(frozen=True)
class Accepted:
    """A job that must pass."""

    name: str
    job: Manifest
    user: str = AUTHOR


_POD_OF_NULLS = dict.fromkeys(
    (
        *("serviceAccountName", "serviceAccount", "hostNetwork", "hostPID", "hostIPC", "nodeName"),
        *("volumes", "tolerations", "initContainers", "ephemeralContainers", "securityContext"),
        *("priorityClassName", "hostUsers"),
    )
)
_CONTEXT_OF_NULLS = dict.fromkeys(("privileged", "capabilities", "windowsOptions", "procMount"))
_CONTEXT_OF_NOTHING = {
    "privileged": False,
    "capabilities": {"add": None, "drop": ["ALL"]},
    "windowsOptions": {"hostProcess": False},
    "procMount": "Default",
}


def _crowd(how_many: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"c{i}", "image": "i", **fields} for i in range(how_many)]


_CAREFUL = {
    "securityContext": {**_CONTEXT_OF_NOTHING, "capabilities": {"add": ["CHOWN", "IPC_LOCK"] * 4}},
    "ports": [{"containerPort": 1000 + i} for i in range(20)],
    "env": [{"name": f"E{i}", "value": "v" * 100} for i in range(100)],
}
LARGE = changed(
    FULL,
    {
        CONTAINERS: [{**TRAINER, **_CAREFUL}, *_crowd(15, **_CAREFUL)],
        f"{POD}.initContainers": _crowd(16, **_CAREFUL),
        f"{POD}.volumes": [
            *({"name": f"v{i}", "configMap": {"name": "c"}} for i in range(100)),
            *csi(*(f"s{i}" for i in range(20))),
        ],
        f"{POD}.tolerations": [{"key": f"example.com/{i}", **_EXISTS} for i in range(100)],
        f"{POD}.serviceAccountName": "default",
    },
)
"""Larger than anybody's pods: the guard must judge it within what CEL may cost."""

ACCEPTED = (
    Accepted("the smallest job", job()),
    Accepted("a job with everything", FULL),
    Accepted("a very large job", LARGE, KEEPER_OF_ALL),
    Accepted("the default account by name", pod(serviceAccountName="default")),
    Accepted("no account", pod(serviceAccountName="", serviceAccount="")),
    Accepted("an account one may use", pod(serviceAccountName="trains"), USER_OF_ACCOUNT),
    Accepted("an account one may impersonate", pod(serviceAccountName="trains"), IMPERSONATOR),
    Accepted("a secret one may read", checkpoints_on_csi("storage"), KEEPER_OF_ONE),
    Accepted("the same for a volume", pod(volumes=csi("storage")), KEEPER_OF_ONE),
    Accepted("several secrets", pod(volumes=csi("a", "b", "c")), KEEPER_OF_ALL),
    Accepted("csi without a secret", job({"checkpoint.volume.csi": {"driver": "d"}})),
    Accepted("nulls in the pod", pod(**_POD_OF_NULLS)),
    Accepted("nulls in a context", trainer(securityContext=_CONTEXT_OF_NULLS, ports=None)),
    Accepted("no context", trainer(securityContext=None)),
    Accepted("nothing of Windows", trainer(securityContext={"windowsOptions": {}})),
    Accepted("volumes and tolerations that are empty", pod(volumes=[], tolerations=[])),
    Accepted("harmless words", trainer(securityContext=_CONTEXT_OF_NOTHING)),
    Accepted("no host at all", pod(hostNetwork=False, hostPID=False, hostIPC=False)),
    Accepted("no namespace of the node's users", pod(hostUsers=False)),
    Accepted("pinned memory for RDMA", _adds("IPC_LOCK")),
    Accepted("ports of its own", trainer(ports=[{"containerPort": 80}, {"containerPort": 81}])),
    Accepted("a priority class", pod(priorityClassName="batch")),
    Accepted("tolerations by key", _tolerates(key="example.com/team", value="a")),
    Accepted(
        "volumes of every other kind",
        pod(
            volumes=[
                {"name": "a", "emptyDir": {}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "c", "nfs": {"server": "s", "path": "/"}},
                {"name": "d", "secret": {"secretName": "s"}},
                {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                {"name": "f", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "g", "hostPath": None, "emptyDir": {}},
            ]
        ),
    ),
)
