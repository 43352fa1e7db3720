"""An S3 server (versitygw) as a pod of the cluster whose jobs save there. Pure.

The program is no image: it comes with a volume, and runs in any image, for it is one static file.
"""

from devcluster.client import Manifest, Manifests

NAME, CREDENTIALS = "s3", "bucket"
BUCKET, PORT = "checkpoints", 7070
_PROGRAM, _DATA = "/program", "/data"
_SERVE = f"""
mkdir -p {_DATA}/{BUCKET} &&
exec {_PROGRAM}/versitygw --port "$IP:{PORT}" --quiet posix {_DATA}
"""


def s3_server(image: str, program: Manifest, folder: str) -> Manifests:
    """Return the server, its Service and its credentials.

    `program` is the volume that has the server in a folder of it.

    It keeps away from spot nodes, and may run in a namespace that enforces `restricted`.
    """
    container = {
        "name": NAME,
        "image": image,
        "command": ["sh", "-c", _SERVE],
        "env": [
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            _secret("ROOT_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"),
            _secret("ROOT_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"),
        ],
        "volumeMounts": [
            {"name": "program", "mountPath": _PROGRAM, "subPath": folder, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
        ],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"karpenter.sh/capacity-type": "on-demand"},
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "program", **program}, {"name": "data", "emptyDir": {}}],
    }
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "no-secret"}
    service = {"selector": {"app": NAME}, "ports": [{"port": PORT}]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": CREDENTIALS},
            "stringData": keys,
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}, "spec": service},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": NAME, "labels": {"app": NAME}},
            "spec": spec,
        },
    ]


def saves_there(host: str = NAME) -> tuple[Manifest, Manifest]:
    """Return spec.checkpoint of a job, and what its container needs: no secret is in either."""
    env = [
        {"name": "AWS_ENDPOINT_URL", "value": f"http://{host}:{PORT}"},
        {"name": "AWS_REGION", "value": "us-east-1"},
    ]
    found = {"env": env, "envFrom": [{"secretRef": {"name": CREDENTIALS}}]}
    return {"uri": f"s3://{BUCKET}/runs", "keep": 2}, found


def has_stored(status: Manifest) -> bool:
    """Whether the operator knows that something is in the bucket of a job."""
    return bool(status.get("accumulators", {}).get("storage", {}).get("storedBytes"))


def has_restored(status: Manifest) -> bool:
    """Whether a job trains in a world that began with a checkpoint."""
    return bool(status["world"].get("restore") and status["phase"] == "Running")


def _secret(name: str, key: str) -> Manifest:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": CREDENTIALS, "key": key}}}
