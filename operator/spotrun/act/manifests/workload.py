"""The Workload by which a job asks Kueue for workers. Pure."""

from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.act.manifests.worker_pod import owned_metadata
from spotrun.api.names import ANNOTATION_ASKED
from spotrun.state.actions import AskQueue
from spotrun.state.names import asked_hash, workload_name
from spotrun.state.queue import Flavor, Queue
from spotrun.state.snapshot import JobSnapshot

POD_SET = "workers"
GROUP = "kueue.x-k8s.io"


def workload(job: JobSnapshot, ask: AskQueue, queue: Queue) -> Manifest:
    """Return a new request for workers."""
    asked = workload_change(job, ask, queue)
    metadata = owned_metadata(job, workload_name(job.name, job.uid, ask.number))
    return plain(
        {
            "apiVersion": f"{GROUP}/{queue.api_version}",
            "kind": "Workload",
            "metadata": {**metadata, **asked["metadata"]},
            "spec": asked["spec"],
        }
    )


def workload_change(job: JobSnapshot, ask: AskQueue, queue: Queue) -> Manifest:
    """Return what the job asks for now, as a merge patch of a waiting Workload."""
    pod_set: Manifest = {"name": POD_SET, "count": ask.count, "template": _template(job, queue)}
    if ask.least is not None:
        pod_set["minCount"] = ask.least
    spec: Manifest = {"queueName": queue.name, "podSets": [pod_set], **_priority(queue)}
    if not queue.priority_class and job.spec.priority:
        spec["priority"] = job.spec.priority
    asked = asked_hash(job.template, queue.name)
    return {"metadata": {"annotations": {ANNOTATION_ASKED: asked}}, "spec": spec}


def _priority(queue: Queue) -> Manifest:
    if not queue.priority_class:
        return {}
    if queue.api_version == "v1beta1":
        source = "kueue.x-k8s.io/workloadpriorityclass"
        named: Manifest = {
            "priorityClassName": queue.priority_class,
            "priorityClassSource": source,
        }
    else:
        kind = {"group": GROUP, "kind": "WorkloadPriorityClass"}
        named = {"priorityClassRef": {**kind, "name": queue.priority_class}}
    return {**named, "priority": queue.priority}


def _template(job: JobSnapshot, queue: Queue) -> Manifest:
    """Return the template of the workers asked for; growth asks for nodes of the same flavor."""
    given = job.spec.workers.template
    spec: Manifest = given.spec.manifest()
    flavor: Flavor = queue.flavor
    if flavor.node_labels:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **flavor.node_labels}
    if flavor.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *flavor.tolerations]
    spec["restartPolicy"] = "Never"
    return {"metadata": {}, "spec": spec}
