"""The flags that kubectl has as well, for the commands that ask a cluster.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

OUTPUTS = ("json", "yaml", "name")


def describe(parser: argparse.ArgumentParser, examples: str, usage: str) -> None:
    """Add the flags that name the cluster and the namespace."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"examples:\n{examples}\n{_EXIT_CODES}"
    parser.usage = f"{parser.prog} {usage}".rstrip()
    group = parser.add_argument_group("the cluster")
    group.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", help="default: that of the context"
    )
    group.add_argument(
        "--context", metavar="NAME", help="a context of the kubeconfig (default: its current one)"
    )
    group.add_argument(
        "--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, else ~/.kube/config"
    )


def add_all_namespaces(parser: argparse.ArgumentParser) -> None:
    """Add -A."""
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="the jobs of all namespaces"
    )


def add_name(parser: argparse.ArgumentParser) -> None:
    """Add the job's name."""
    parser.add_argument("name", metavar="NAME", help="the TrainingJob")


def add_output(parser: argparse.ArgumentParser, outputs: tuple[str, ...] = OUTPUTS) -> None:
    """Add -o."""
    parser.add_argument(
        "-o", "--output", choices=outputs, metavar="|".join(outputs), help="output for programs"
    )


_EXIT_CODES = """\
Exit codes: 0 done, 1 the job has failed or the request was refused, 2 the flags are wrong, 3 the
cluster does not answer or does not allow it, 4 there is no such job.
"""
