"""`kubectl tjob plan`: a script's needs, measured in a process of its own, and the machines."""

import json
import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spotrun.api.trainingjob import TrainingJob
from spotrun.cli.plan import report
from spotrun.cli.plan.choice import Assumptions, options
from spotrun.cli.plan.machines import machines
from spotrun.cli.plan.strategies import Needs
from spotrun.simulate.estimate import manifest

_MEASURE = "spotrun_trainer.loop.memory"
_SHOWN_CHARS = 2000


@dataclass(frozen=True)
class Question:
    """The question on a command line."""

    script: str
    needs: Needs
    assumed: Assumptions
    as_json: bool


def understand(chosen: Namespace) -> Question:
    """Read flags and measure the script; raises ValueError that says what is wrong."""
    if (chosen.script is None) == (chosen.needs is None):
        raise ValueError("give --script, or --needs with what was measured before")
    if chosen.needs is not None and chosen.filename is not None:
        raise ValueError("--filename gives --script its arguments; with --needs it has no use")
    if not chosen.usable > 0 or not chosen.utilization > 0:
        raise ValueError("--usable and --utilization are shares above 0")
    found = (
        _measured(chosen.script, _arguments(chosen.filename, chosen.script), chosen.timeout)
        if chosen.script is not None
        else _kept(chosen.needs)
    )
    return Question(
        script=chosen.script or chosen.needs,
        needs=Needs.read(found),
        assumed=Assumptions(chosen.usable, chosen.utilization),
        as_json=chosen.json,
    )


def run(question: Question) -> int:
    """Choose machines and print."""
    found, none = options(question.needs, machines(), question.assumed)
    render = report.as_json if question.as_json else report.as_text
    print(render(question.script, question.needs, found, none, question.assumed))
    return 0


def _arguments(filename: str | None, script: str) -> Sequence[str]:
    """Return the arguments that a job gives to its script."""
    if filename is None:
        return ()
    job: TrainingJob = manifest.read(filename)
    trainer = job.spec.workers.template.spec.trainer
    args = (trainer.args if trainer is not None else None) or ()
    for number, one in enumerate(args):
        if Path(one).name == Path(script).name:
            return args[number + 1 :]
    raise ValueError(
        f"{filename} does not run {Path(script).name}: its container's args are {list(args)}"
    )


def _measured(script: str, arguments: Sequence[str], minutes: float) -> dict[str, Any]:
    if find_spec("torch") is None:
        raise ValueError(
            "--script runs the script's model in PyTorch, which is not installed here: pip install "
            f"'spotrun[trainer]'; or run `python -m {_MEASURE} {script} > needs.json` where it "
            "is installed, such as in the job's image, and give --needs needs.json"
        )
    with subprocess.Popen(
        [sys.executable, "-m", _MEASURE, script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            out, said = child.communicate(timeout=60 * minutes)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            raise ValueError(_took_too_long(script, minutes)) from None
        except BaseException:  # Ctrl-C does not reach the child in its own session
            os.killpg(child.pid, signal.SIGKILL)
            raise
    if child.returncode:
        raise ValueError(_why_not(script, child.returncode, said.strip()))
    return _object(out, script)


def _took_too_long(script: str, minutes: float) -> str:
    return (
        f"{script} cannot be planned: it did not reach its first step within {minutes:g} minutes, "
        "and was ended; nothing is computed in a plan, so look for a download or for data that are "
        "read as a whole, or give it longer with --timeout"
    )


def _why_not(script: str, code: int, said: str) -> str:
    cannot, last = f"{script} cannot be planned: ", said.rpartition("\n")[2]
    if last.startswith(cannot):
        return last
    ended = f"it ended with {code}" if code > 0 else f"{_signal(-code)} ended it"
    if code == -signal.SIGKILL:
        ended += "; memory may have run out: read less of the data before the first step"
    return f"{cannot}{ended}\n{said[-_SHOWN_CHARS:]}".strip()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one that Python has no name for
        return f"signal {number}"


def _kept(name: str) -> dict[str, Any]:
    try:
        return _object(Path(name).read_text(encoding="utf-8"), name)
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"what was measured of {name} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"what was measured of {name} is not an object")  # noqa: TRY004
    return found
