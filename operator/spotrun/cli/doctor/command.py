"""`kubectl tjob doctor`: from flags to exit code."""

from argparse import Namespace
from dataclasses import dataclass
from textwrap import indent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spotrun.api.trainingjob import TrainingJob
    from spotrun.cli.doctor.sizes import Advice


@dataclass(frozen=True)
class Question:
    """The question on a command line."""

    job: "TrainingJob"
    processes: int
    batch: int | None


def understand(chosen: Namespace) -> Question | Namespace:
    """Read flags and the job; raises ValueError that says what is wrong."""
    if chosen.filename is None:
        if chosen.batch or chosen.processes:
            raise ValueError("--batch and --processes need a job from -f FILE")
        return chosen
    if chosen.name or chosen.output:
        raise ValueError("-f FILE asks no cluster: give it without NAME and -o")
    # pydantic takes a fifth of a second, and a question to the cluster does not need it.
    from spotrun.observe.template_defaults import processes_of  # noqa: PLC0415
    from spotrun.simulate.estimate import manifest  # noqa: PLC0415

    job = manifest.read(chosen.filename)
    return Question(job, chosen.processes or processes_of(job.spec.workers), chosen.batch)


def run(question: Question | Namespace) -> int:
    """Print what was found; returns 1 where a change is proposed, or needed."""
    if isinstance(question, Namespace):
        from spotrun.cli.doctor import checkup  # noqa: PLC0415

        return checkup.run(question)
    from spotrun.cli.doctor.sizes import advise  # noqa: PLC0415

    advice = advise(question.job.spec.workers, question.processes, question.batch)
    print(_text(advice, question.job))
    return 1 if advice.change else 0


def _text(advice: "Advice", job: "TrainingJob") -> str:
    """Write the advice; a script with `Run` needs none, but whether it uses `Run` is not known."""
    if not advice.change:
        return f"batch: {advice.why}"
    said = job.status.batch_change.message if job.status and job.status.batch_change else ""
    seen = f"\nThis has happened already: {said}" if said else ""
    lines = indent(advice.change, "    ")
    return (
        f"batch: {advice.why}. A script with Run keeps its global batch at every size, and does "
        f"not need this.{seen}\nspec:\n  workers:\n{lines}"
    )
