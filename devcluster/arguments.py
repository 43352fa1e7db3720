"""The command line of `python -m devcluster`, with its help."""

import argparse
import math
import os
import re
from pathlib import Path
from typing import Protocol

from devcluster.controlplane import COMPONENTS
from devcluster.notices import Dialect
from devcluster.platforms import Platform

_EPILOG = """\
examples:
  python -m devcluster up
  eval "$(python -m devcluster env)"; kubectl get nodes
  python -m devcluster add-node a --gpus 8 --platform karpenter --capacity spot --zone us-east-1a
  python -m devcluster notice a --dialect karpenter-spot --seconds 120
  python -m devcluster vanish a
  python -m devcluster down

What it is, what it is not, and how it works: devcluster/README.md
"""


class Commands(Protocol):
    """The object that `add_subparsers` returns."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser: ...  # noqa: A002


def parser() -> argparse.ArgumentParser:
    """Every command and option."""
    top = argparse.ArgumentParser(
        prog="python -m devcluster",
        description="A real Kubernetes on this machine, without Docker and without root.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_lifecycle(commands)
    _add_nodes(commands)
    return top


def _add_lifecycle(commands: Commands) -> None:
    build = commands.add_parser("build", help="find or build the Kubernetes binaries; lists them")
    _add_kubernetes(build)
    build.add_argument("--s3", action="store_true", help="only the S3 server of tests")
    build.add_argument("--azurite", action="store_true", help="only Azurite of tests, from npm")
    build.add_argument("--kueue", action="store_true", help="only the Kueue of tests")
    up = commands.add_parser("up", help="start a cluster that outlives this command")
    run = commands.add_parser("run", help="the same in the foreground, until Ctrl-C")
    for command in (up, run):
        _add_cluster(command, writable=True)
        _add_kubernetes(command)
        command.add_argument(
            "--flag",
            type=_component_flag,
            action="append",
            default=[],
            metavar="COMPONENT:--NAME=VALUE",
            help="one more flag for a component, e.g. kube-apiserver:--watch-cache=false",
        )
        command.add_argument(
            "--logs",
            type=_writable_folder,
            metavar="DIR",
            help="write logs here and keep them (default: in the directory, removed by `down`)",
        )
    run.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    down = commands.add_parser("down", help="end a cluster and remove its directory")
    env = commands.add_parser("env", help="print the shell variables to use it with")
    status = commands.add_parser("status", help="what runs")
    status.add_argument("-o", "--output", choices=["text", "json"], default="text")
    for command in (down, env, status):
        _add_cluster(command)


def _add_nodes(commands: Commands) -> None:
    add = commands.add_parser("add-node", help="add a node")
    _add_node(add)
    add.add_argument(
        "--kind",
        choices=["process", "scripted"],
        default="process",
        help="process: pods run as local processes; scripted: pods only seem to run",
    )
    for resource, default in (("cpu", "8"), ("memory", "32Gi")):
        add.add_argument(
            f"--{resource}",
            type=_quantity,
            default=default,
            help="capacity, as a quantity (default %(default)s)",
        )
    add.add_argument("--gpus", type=_count, default=0, help="emulated nvidia.com/gpu (default 0)")
    add.add_argument(
        "--platform",
        choices=[p.value for p in Platform],
        default=Platform.PLAIN.value,
        help="whose labels and taints it carries",
    )
    add.add_argument("--capacity", choices=["spot", "on-demand"], default="on-demand")
    add.add_argument("--zone", default="us-east-1a")
    add.add_argument("--instance-type", default="g5.xlarge")
    add.add_argument("--label", type=_label, action="append", default=[], metavar="KEY=VALUE")
    _add_node(commands.add_parser("remove-node", help="take a node away, with its pods"))
    notice = commands.add_parser("notice", help="announce in a platform's way that a node will end")
    _add_node(notice)
    notice.add_argument("--dialect", choices=[d.value for d in Dialect], default="karpenter-spot")
    notice.add_argument("--seconds", type=_seconds, default=120, help="until its end (default 120)")
    back = commands.add_parser("take-back-notice", help="undo a notice")
    _add_node(back)
    back.add_argument("--dialect", choices=[d.value for d in Dialect], default="karpenter-spot")
    off = commands.add_parser("shut-down", help="shut a node down gracefully")
    _add_node(off)
    off.add_argument("--grace", type=_seconds, default=15, metavar="SECONDS")
    vanish = commands.add_parser("vanish", help="take the machine away without any report")
    _add_node(vanish)
    vanish.add_argument("--delete-node", action="store_true", help="remove the Node object as well")
    _add_node(commands.add_parser("silence", help="cut a node off; its containers run on"))
    _add_node(commands.add_parser("come-back", help="end a silence, or switch a node on again"))


def _add_node(command: argparse.ArgumentParser) -> None:
    command.add_argument("node", metavar="NODE")
    _add_cluster(command)


def _add_cluster(command: argparse.ArgumentParser, *, writable: bool = False) -> None:
    command.add_argument("--name", type=_name, default="dev", help="which cluster (default dev)")
    command.add_argument(
        "--directory",
        type=_writable_folder if writable else Path,
        help="where it lives (default .devcluster/NAME)",
    )


def _add_kubernetes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kubernetes",
        default="current",
        choices=["current", "oldest"],
        help="the newest or the oldest supported Kubernetes (default current)",
    )


def _name(text: str) -> str:
    """Read a cluster's name.

    It is also the name of a folder that `down` removes, so it must not lead to another place.
    """
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,62}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name: use letters, digits, '-' and '_'")
    return text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: use 0, 1, 2 ...")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds: use 0, 2.5, 120 ...")
    return seconds


def _quantity(text: str) -> str:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?(m|k|[KMGTPE]i?)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a quantity: use 8, 500m, 32Gi ...")
    return text


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE: use for example team=vision")
    return key, value


def _component_flag(text: str) -> str:
    component, colon, flag = text.partition(":")
    if not colon or component not in COMPONENTS or not flag.startswith("--"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not COMPONENT:--name=value with one of {', '.join(COMPONENTS)}"
        )
    return text


def _writable_folder(text: str) -> Path:
    """Read a folder: it may be created later, so its nearest existing parent is checked."""
    folder = Path(text)
    places = (folder.absolute(), *folder.absolute().parents)
    there = next(place for place in places if os.access(place, os.F_OK))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be written, because of {there}: name a folder that you may write to "
            "or create"
        )
    return folder
