"""Runs a training script only to measure its needs: it computes nothing and needs no GPU.

python -m spotrun_trainer.loop.memory train.py ARGUMENTS...   prints one JSON object
"""

import os
import runpy
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from spotrun_trainer.loop.memory.fakes import build_fake_models
from spotrun_trainer.loop.memory.needs import PLAN_FILE


def main(arguments: list[str]) -> int:
    """Run the script up to its first step, and print what was found."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    script, *_ = sys.argv = arguments
    if not Path(script).is_file():
        print(f"{script} cannot be planned: there is no such file", file=sys.stderr)
        return 1
    sys.path[0] = str(Path(script).resolve().parent)
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "needs.json")
        os.environ[PLAN_FILE] = str(found)
        os.environ.pop("SPOTRUN_CHECKPOINT", None)  # so nothing is restored or claimed
        said = _run(script)
        if found.exists():
            print(found.read_text())
            return 0
    # On one line, because the caller shows only the last line.
    print(f"{script} cannot be planned: {' '.join(said.split())}", file=sys.stderr)
    return 1


def _run(script: str) -> str:
    """Run a script, which ends itself when the plan is made; return why it was not made."""
    build_fake_models()
    # torch's own copy of a parameter asks for an address, which a fake parameter does not have.
    warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
    out, sys.stdout = sys.stdout, sys.stderr  # the script's output is not part of the answer
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        return f"it ended by itself, with {error.code!r}, before its first step"
    except Exception as error:
        return _reason(error, script)
    finally:
        sys.stdout = out
    return "it ended without run.steps(...), and the plan measures the first microbatch of that"


def _reason(error: Exception, script: str) -> str:
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == script]
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    kind = type(error).__name__
    if "DataDependent" in kind or "DynamicOutputShape" in kind:
        return (
            f"its step reads the content of a tensor{where}, but in a plan tensors have none: keep "
            "float(), .item(), `if` and boolean masks out of the loop over microbatches"
        )
    return f"{kind}: {error}{where}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
