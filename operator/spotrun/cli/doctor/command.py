"""`kubectl tjob doctor`: from flags to exit code."""

from argparse import Namespace
from dataclasses import dataclass
from textwrap import indent

from spotrun.api.trainingjob import TrainingJob
from spotrun.cli.doctor.sizes import Advice, advise
from spotrun.observe.template_defaults import processes_of
from spotrun.simulate.estimate import manifest


@dataclass(frozen=True)
class Question:
    """The question on a command line."""

    job: TrainingJob
    processes: int
    batch: int | None


def understand(chosen: Namespace) -> Question:
    """Read flags and the job; raises ValueError that says what is wrong."""
    job = manifest.read(chosen.filename)
    return Question(job, chosen.processes or processes_of(job.spec.workers), chosen.batch)


def run(question: Question) -> int:
    """Print what was found; returns 1 where a change is proposed."""
    advice = advise(question.job.spec.workers, question.processes, question.batch)
    print(_text(advice, question.job))
    return 1 if advice.change else 0


def _text(advice: Advice, job: TrainingJob) -> str:
    """Write the advice; a script with `Run` needs none, and whether it has that is not known."""
    if not advice.change:
        return f"batch: {advice.why}"
    said = job.status.batch_change.message if job.status and job.status.batch_change else ""
    seen = f"\nIt has happened: {said}" if said else ""
    lines = indent(advice.change, "    ")
    return (
        f"batch: {advice.why}. A script with Run holds its global batch at every size, and needs "
        f"none of this.{seen}\nspec:\n  workers:\n{lines}"
    )
