"""The job's NetworkPolicy: only its workers talk to each other. Pure."""

from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.act.manifests.worker_pod import owned_metadata
from spotrun.api.names import LABEL_JOB_UID
from spotrun.state.names import owned_name
from spotrun.state.snapshot import JobSnapshot


def network_policy(job: JobSnapshot) -> Manifest:
    """Admit only pods of this job, to every port: stores and collectives choose any port."""
    workers = {"matchLabels": {LABEL_JOB_UID: job.uid}}
    return plain(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": owned_metadata(job, owned_name(job.name, job.uid)),
            "spec": {
                "podSelector": workers,
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": workers}]}],
            },
        }
    )
