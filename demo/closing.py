"""The last lines of a demo: how to look around, and what went wrong if something did. Pure."""

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
    """Say that it stays up, how to use it, and how to end it."""
    folder = Path(environment["PATH"].partition(":")[0])
    return [
        "It all stays up until Ctrl-C here, or `make demo-down` elsewhere. In another terminal:",
        f"    export KUBECONFIG={environment['KUBECONFIG']} PATH={folder}:$PATH",
        *commands(job),
    ]


def why_not(outcome: Outcome) -> str:
    """Say why this was no success, and what to do."""
    if outcome.scene.phase == "Succeeded":
        words = "The job was over before everything had happened to it: give it more steps, or name"
        return f"{words} another manifest with --job."
    return f"The job has failed: {outcome.scene.message}"


def last_lines(logs: Sequence[tuple[str, str]]) -> list[str]:
    """The ends of the workers' logs."""
    return [line for pod, log in logs for line in (f"--- the end of the log of {pod}", log)]
