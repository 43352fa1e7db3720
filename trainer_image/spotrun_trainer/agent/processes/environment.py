"""The variables that a Python reads when it starts, as all processes of a worker get them."""

from collections.abc import MutableMapping

from spotrun_trainer.hooks.python_path import show_fatal_errors, watch_processes
from spotrun_trainer.process.dns import wait_shortly


def prepare(environment: MutableMapping[str, str]) -> None:
    """Set them, for every process that is started with this environment; twice does no harm."""
    wait_shortly(environment)
    watch_processes(environment)
    show_fatal_errors(environment)
