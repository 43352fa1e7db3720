"""A Kubernetes operator for spot-aware, auto-scaling PyTorch training jobs.

from spotrun import Client, TrainingJob
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spotrun.api.manifest import load
    from spotrun.api.trainingjob import TrainingJob
    from spotrun.cli.python.client import Client
    from spotrun.cli.python.errors import (
        ClientError,
        ClusterError,
        JobFailedError,
        NoSuchJobError,
        RefusedError,
    )
    from spotrun.cli.python.job import Job
    from spotrun.cli.python.report import Report

__all__ = [
    "Client",
    "ClientError",
    "ClusterError",
    "Job",
    "JobFailedError",
    "NoSuchJobError",
    "RefusedError",
    "Report",
    "TrainingJob",
    "load",
]

_HOMES = {
    "Client": "cli.python.client",
    "Job": "cli.python.job",
    "Report": "cli.python.report",
    "TrainingJob": "api.trainingjob",
    "load": "api.manifest",
}


def __getattr__(name: str) -> object:
    """Import a name when it is used: training images have this package without its libraries."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "cli.python.errors")
    try:
        return getattr(import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        message = f"{name} needs libraries that are missing ({error}): pip install 'spotrun[cli]'"
        raise ImportError(message) from error
