"""`start.sh` runs this file: it puts the copied package first in the import path, and starts it."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
ROOT = HERE.parents[3]


def put_first(root: Path) -> None:
    """Let this process and all that it starts find the copied package before any other."""
    if sys.path and Path(sys.path[0]) == HERE.parent:
        del sys.path[0]  # this folder, which Python has put there
    sys.path.insert(0, str(root))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{root}{os.pathsep}{before}" if before else str(root)


if __name__ == "__main__":
    put_first(ROOT)
    from spotrun_trainer.agent.launch.launcher import main

    main(ROOT)
