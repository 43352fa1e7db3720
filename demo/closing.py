"""The last lines of a demo: how to inspect the cluster, and what went wrong, if anything. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from demo.job import Job
from demo.perform import Outcome


def commands(job: Job) -> list[str]:
    """Return the kubectl commands that show the job and its surroundings."""
    return [
        "    kubectl get trainingjobs -o wide",
        f"    kubectl describe trainingjob {job.name}",
        f"    kubectl get pods -o wide -l spotrun.dev/job={job.name} -L spotrun.dev/worker-id",
        f"    kubectl logs -l spotrun.dev/job={job.name} --prefix --tail=3",
        "    kubectl get nodes -L karpenter.sh/capacity-type,topology.kubernetes.io/zone",
        "    kubectl get events --sort-by=.metadata.creationTimestamp",
        "    kubectl explain trainingjob.status.world",
    ]


def held_words(environment: Mapping[str, str], job: Job) -> list[str]:
    """Return lines about the cluster that stays up: how to use it, and how to end it."""
    folder = Path(environment["PATH"].partition(":")[0])
    return [
        "It all stays up until Ctrl-C here, or `make demo-down` elsewhere. In another terminal:",
        f"    export KUBECONFIG={environment['KUBECONFIG']} PATH={folder}:$PATH",
        *commands(job),
    ]


def why_not(outcome: Outcome) -> str:
    """Return why the demo did not succeed, and what to do."""
    if outcome.scene.phase == "Succeeded":
        words = "The job ended before both nodes were lost: give it more steps, or name"
        return f"{words} another manifest with --job."
    return f"The job has failed: {outcome.scene.message}"


def last_lines(logs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the ends of the workers' logs."""
    return [line for pod, log in logs for line in (f"--- the end of the log of {pod}", log)]
