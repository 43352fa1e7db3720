"""`kubectl tjob`: kubectl runs the console script `kubectl-tjob`, found on PATH, as a plugin."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from spotrun.cli.console import CommandLine
from spotrun.cli.doctor import flags as doctor_flags
from spotrun.cli.jobs import flags as job_flags
from spotrun.cli.jobs.tune import flags as tune_flags
from spotrun.cli.nodepools import flags as nodepools_flags
from spotrun.cli.page import flags as page_flags
from spotrun.cli.plan import flags as plan_flags
from spotrun.cli.replay import estimate_flags
from spotrun.cli.report import flags as report_flags
from spotrun.cli.report.bills import flags as bill_flags
from spotrun.cli.report.break_even import flags as break_even_flags
from spotrun.cli.report.unused_nodes import flags as idle_flags
from spotrun.cli.submit import flags as submit_flags


@dataclass(frozen=True)
class Verb:
    """A command of the plugin; its module is imported when the command is used."""

    text: str
    describe: Callable[[ArgumentParser], None]
    module: str
    function: str = "run"
    is_understood_first: bool = False  # by the module's `understand`, which finds usage errors
    takes_arguments: bool = False  # after --


VERBS = {
    "run": Verb(
        "train a script on the cluster, without building an image",
        submit_flags.describe,
        "spotrun.cli.submit.command",
        is_understood_first=True,
        takes_arguments=True,
    ),
    "list": Verb(
        "the jobs with their cost, first those that need attention",
        job_flags.describe_list,
        "spotrun.cli.jobs.commands",
        "run_list",
    ),
    "show": Verb(
        "one job on one screen: state, workers, money, decisions, what to do next",
        job_flags.describe_show,
        "spotrun.cli.jobs.commands",
        "run_show",
    ),
    "watch": Verb(
        "the same as show, updated as the job changes",
        job_flags.describe_watch,
        "spotrun.cli.jobs.watch",
    ),
    "why": Verb(
        "why a job waits, and the reasons for its size, nodes and price",
        job_flags.describe_why,
        "spotrun.cli.jobs.commands",
        "run_why",
    ),
    "logs": Verb(
        "the logs of rank 0, of one rank, or of all, with changes of the world marked",
        job_flags.describe_logs,
        "spotrun.cli.jobs.logs.command",
    ),
    "cost": Verb(
        "what a job has cost and saved, or all jobs by team, project or pool",
        job_flags.describe_cost,
        "spotrun.cli.jobs.commands",
        "run_cost",
    ),
    "bill": Verb(
        "what a month has cost, deleted jobs included, by team, job or pool, also as FOCUS",
        bill_flags.describe,
        "spotrun.cli.report.bills.command",
    ),
    "breakeven": Verb(
        "when bought or reserved nodes cost less than rented ones, computed from your bills",
        break_even_flags.describe,
        "spotrun.cli.report.break_even.command",
        is_understood_first=True,
    ),
    "idle": Verb(
        "nodes that no workload uses, with their cost and the reason why they stay",
        idle_flags.describe,
        "spotrun.cli.report.unused_nodes.command",
    ),
    "report": Verb(
        "all about a job in one file: HTML, Markdown or JSON",
        report_flags.describe,
        "spotrun.cli.report.command",
    ),
    "ui": Verb(
        "a page in your browser: all jobs and pools, and the timeline of each job",
        page_flags.describe,
        "spotrun.cli.page.command",
    ),
    "nodepools": Verb(
        "Karpenter's objects for your CapacityPools: NodePools, and prices that include lost work",
        nodepools_flags.describe,
        "spotrun.cli.nodepools.command",
    ),
    "suspend": Verb(
        "save a checkpoint, and give all workers back",
        job_flags.describe_suspend,
        "spotrun.cli.jobs.acting",
        "run_suspend",
    ),
    "resume": Verb(
        "let a suspended job continue",
        job_flags.describe_resume,
        "spotrun.cli.jobs.acting",
        "run_resume",
    ),
    "scale": Verb(
        "ask for another number of workers",
        job_flags.describe_scale,
        "spotrun.cli.jobs.acting",
        "run_scale",
    ),
    "checkpoint": Verb(
        "save a checkpoint now, and wait until it is durable",
        job_flags.describe_checkpoint,
        "spotrun.cli.jobs.acting",
        "run_checkpoint",
    ),
    "profile": Verb(
        "record what the next steps of one rank do: a table of operators, and a trace",
        job_flags.describe_profile,
        "spotrun.cli.jobs.logs.profile",
    ),
    "stop": Verb(
        "save, end and delete a job, and print its bill",
        job_flags.describe_stop,
        "spotrun.cli.jobs.acting",
        "run_stop",
    ),
    "estimate": Verb(
        "the range of cost and finish time to expect of a job, from recorded markets",
        estimate_flags.describe,
        "spotrun.simulate.estimate.command",
        is_understood_first=True,
    ),
    "plan": Verb(
        "the memory that a training script needs, and the machines that have it",
        plan_flags.describe,
        "spotrun.cli.plan.command",
        is_understood_first=True,
    ),
    "tune": Verb(
        "the trials of a search, with the cost and the result of each",
        tune_flags.describe,
        "spotrun.cli.jobs.tune.command",
        is_understood_first=True,
    ),
    "doctor": Verb(
        "what is wrong with the installation, or with a job, and how to fix it",
        doctor_flags.describe,
        "spotrun.cli.doctor.command",
        is_understood_first=True,
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plugin and return its exit code."""
    line = CommandLine(
        "kubectl tjob", "Work with TrainingJobs beyond what kubectl itself can do.", extra="cli"
    )
    for name, verb in VERBS.items():
        prepare = partial(_prepare, verb)
        verb.describe(line.add(name, verb.text, prepare, takes_arguments=verb.takes_arguments))
    return line.run(argv)


def _prepare(verb: Verb, chosen: Namespace) -> Callable[[], int]:
    module = import_module(verb.module)
    run = getattr(module, verb.function)
    return partial(run, module.understand(chosen) if verb.is_understood_first else chosen)


if __name__ == "__main__":
    sys.exit(main())
