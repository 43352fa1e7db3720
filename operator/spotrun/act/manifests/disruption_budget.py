"""The job's PodDisruptionBudget: a drain waits for the swap that its cordon triggers. Pure."""

from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.act.manifests.worker_pod import owned_metadata
from spotrun.api.names import LABEL_JOB_UID
from spotrun.state.names import owned_name
from spotrun.state.snapshot import JobSnapshot

EVERY_WORKER = 2**31 - 1


def disruption_budget(job: JobSnapshot) -> Manifest:
    """Return the budget that forbids evictions of healthy workers; our own deletions are exempt."""
    return plain(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": owned_metadata(job, owned_name(job.name, job.uid)),
            "spec": {
                # Not `maxUnavailable: 0`: that counts from spec.workers.replicas. While there are
                # more workers (min is above it, or replacements start) it would allow evictions of
                # the surplus.
                "minAvailable": EVERY_WORKER,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": {LABEL_JOB_UID: job.uid}},
            },
        }
    )
