from spotrun.act.manifests.disruption_budget import disruption_budget
from spotrun.act.manifests.network_policy import network_policy
from tests.support.jobs.builders import a_job

METADATA = {
    "name": "job-pu7fk",
    "namespace": "ns",
    "labels": {
        "spotrun.dev/job": "job",
        "spotrun.dev/job-uid": "job-uid",
        "app.kubernetes.io/managed-by": "spotrun",
    },
    "ownerReferences": [
        {
            "apiVersion": "spotrun.dev/v1alpha1",
            "kind": "TrainingJob",
            "name": "job",
            "uid": "job-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ],
}
WORKERS = {"matchLabels": {"spotrun.dev/job-uid": "job-uid"}}


def test_no_healthy_worker_is_evicted() -> None:
    assert disruption_budget(a_job().snapshot()) == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": METADATA,
        "spec": {
            "minAvailable": 2147483647,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": WORKERS,
        },
    }


def test_only_workers_of_the_job_reach_each_other() -> None:
    assert network_policy(a_job().snapshot()) == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": METADATA,
        "spec": {
            "podSelector": WORKERS,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": WORKERS}]}],
        },
    }
