"""The affinity that places the workers of a replica near each other. Pure.

Once one of them has a node, the others ask for nodes with its label: the scheduler looks such a
label up, and autoscalers know which machines have it. Pod affinity is used only while no worker of
the replica has a node: the scheduler compares such a pod with all pods on all nodes. Kubernetes
therefore advises against it in clusters of more than some hundred nodes; JobSet avoids it too.
"""

from spotrun.act.manifests.affinity import both
from spotrun.act.manifests.plain_json import Manifest
from spotrun.api.names import LABEL_JOB_UID, LABEL_REPLICA
from spotrun.api.spec.placement import ReplicaTopology
from spotrun.state.actions import Create, Near

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100


def with_replica(
    affinity: Manifest, worker: Create, job_uid: str, topology: ReplicaTopology
) -> Manifest:
    """Return the affinity of a pod, with the terms that place it near the others of its replica."""
    if worker.replica is None:
        return affinity
    if worker.place.near is not None:
        return _near_nodes(affinity, worker.place.near)
    labels = {LABEL_JOB_UID: job_uid, LABEL_REPLICA: str(worker.replica)}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology.key}
    of_pods = dict(affinity.get("podAffinity") or {})
    if topology.is_required:
        of_pods[_REQUIRED] = [*(of_pods.get(_REQUIRED) or ()), term]
    else:
        wish = {"weight": _WEIGHT, "podAffinityTerm": term}
        of_pods[_PREFERRED] = [*(of_pods.get(_PREFERRED) or ()), wish]
    return {**affinity, "podAffinity": of_pods}


def _near_nodes(affinity: Manifest, near: Near) -> Manifest:
    expression = {"key": near.key, "operator": "In", "values": [near.value]}
    of_nodes = dict(affinity.get("nodeAffinity") or {})
    if not near.is_required:
        wish = {"weight": _WEIGHT, "preference": {"matchExpressions": [expression]}}
        of_nodes[_PREFERRED] = [*(of_nodes.get(_PREFERRED) or ()), wish]
    else:
        given = (of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
        terms = both(given, [{"matchExpressions": [expression]}])
        of_nodes[_REQUIRED] = {"nodeSelectorTerms": terms}
    return {**affinity, "nodeAffinity": of_nodes}
