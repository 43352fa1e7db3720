"""Common mistakes of a job, found in its spec and its status. Pure."""

from collections.abc import Iterator
from typing import Any

from spotrun.api.names import Phase
from spotrun.cli.doctor.findings import Finding, Health
from spotrun.cli.jobs.advice import troubles
from spotrun.cli.jobs.model import Job

_OVER = (Phase.SUCCEEDED, Phase.FAILED)


def mistakes(job: Job) -> list[Finding]:
    """Return what is wrong now, then what may go wrong later."""
    found = [
        Finding(Health.BAD, f"{one.title}: {one.message}", one.advice) for one in troubles(job)
    ]
    found += [*_checkpoint(job), *_deadline(job), *_template(job), *_progress(job)]
    return found or [Finding(Health.WELL, "none of the common mistakes was found")]


def _checkpoint(job: Job) -> Iterator[Finding]:
    if job.spec.checkpoint is None and job.spec.placement.capacity != "OnDemand":
        yield Finding(
            Health.WORSE,
            "it may run on spot and has no place for checkpoints: if all workers are lost at "
            "once, training begins again",
            "give spec.checkpoint a ReadWriteMany claim or the address of a bucket",
        )


def _deadline(job: Job) -> Iterator[Finding]:
    if job.spec.deadline and job.spec.placement.capacity == "Spot":
        yield Finding(
            Health.WORSE,
            "it has a deadline and may use spot only, which can be unavailable for any time",
            "set placement.capacity: Mixed",
        )


def _template(job: Job) -> Iterator[Finding]:
    trainer = _trainer(job)
    image = str(trainer.get("image", ""))
    name = image.rpartition("/")[2]
    if "@" not in name and (":" not in name or name.endswith(":latest")):
        yield Finding(
            Health.WORSE,
            f"its image {image} can change between one worker and the next",
            "name a tag that stays, or a digest",
        )
    resources = trainer.get("resources")
    if not isinstance(resources, dict) or not (
        resources.get("requests") or resources.get("limits")
    ):
        yield Finding(
            Health.WORSE,
            "its workers request nothing: they may share a core, and their cost is a guess",
            "write resources.requests for cpu and memory, and limits for nvidia.com/gpu",
        )


def _progress(job: Job) -> Iterator[Finding]:
    done = job.status.progress
    if job.status.phase != Phase.RUNNING:
        return
    if done.step is None:
        yield Finding(
            Health.WORSE,
            "it trains, but reports no step: neither deadline nor savings can be computed",
            "use Run or an integration; docs/run-your-existing-script.md says how",
        )
    elif done.total_steps is None:
        yield Finding(
            Health.WORSE,
            "its script does not say how many steps there are: its end cannot be predicted",
            "pass total to run.steps, or annotate the job with spotrun.dev/total-steps",
        )


def _trainer(job: Job) -> dict[str, Any]:
    spec: Any = job.spec.workers.template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    listed = [one for one in containers or () if isinstance(one, dict)]
    return next((one for one in listed if one.get("name") == "trainer"), (listed or [{}])[0])
