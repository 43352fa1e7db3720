"""The launcher: it checks whether the image can train, and then becomes torchrun.

If the image lacks something, one sentence in the log and in the worker's last words says what, and
the operator ends the job for this reason.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

from spotrun.wire import Ending, LastWords
from spotrun_trainer.agent.launch.checks import others_version, torch_version, why_unusable
from spotrun_trainer.agent.launch.package import TornError, verify
from spotrun_trainer.agent.settings import TERMINATION_LOG
from spotrun_trainer.agent.termination_log import TerminationLog

UNUSABLE_EXIT_CODE, TORN_EXIT_CODE, BROKEN_TORCH_EXIT_CODE = 64, 65, 66


def main(root: Path) -> None:
    """Run torchrun in this process, if the package has arrived and the image can train."""
    try:
        package = verify(root)
    except TornError as error:
        _end(
            Ending.FAILED,
            TORN_EXIT_CODE,
            f"spotrun was not copied completely into the worker: {error}",
        )
    torch, python = torch_version(), f"{sys.version.split()[0]}, {sys.executable}"
    if (why := why_unusable(torch, python)) is not None:
        _end(Ending.UNUSABLE, UNUSABLE_EXIT_CODE, why)
    _say(f"{package.version}, sha256 {package.checksum[:12]}; torch {torch}, Python {python}")
    if (other := others_version(root, sys.path)) is not None:
        _say(f"the image's own spotrun {other} is not used")
    try:
        from spotrun_trainer.agent.launch.torchrun import load  # noqa: PLC0415 - after the checks

        torchrun = load(sys.argv[1:])
    except (ImportError, OSError) as error:
        # Also raised where a node lacks the driver's libraries: on other nodes the image may train.
        why = f"the image's torch {torch} cannot be imported by its Python ({python}): {error}"
        _end(Ending.FAILED, BROKEN_TORCH_EXIT_CODE, why)
    sys.argv[0] = "torchrun"  # the name in argparse's messages and in process titles
    torchrun(sys.argv[1:])


def _end(reason: Ending, code: int, message: str) -> NoReturn:
    _say(message)
    place = Path(os.environ.get("SPOTRUN_TERMINATION_LOG") or TERMINATION_LOG)
    TerminationLog(place).write(LastWords(reason, exit_code=code, message=message))
    raise SystemExit(code)


def _say(text: str) -> None:
    print(f"spotrun: {text}", file=sys.stderr, flush=True)
