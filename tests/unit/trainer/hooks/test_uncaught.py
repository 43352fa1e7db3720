import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spotrun_trainer.hooks.python_path import with_site

RAISES = """
def step():
    raise ArithmeticError("loss is not finite")

def main():
    step()

main()
"""


@pytest.mark.parametrize("starts_session", [True, False])
def test_what_ends_a_script_is_noted_for_torchrun(tmp_path: Path, *, starts_session: bool) -> None:
    script, noted = tmp_path / "train.py", tmp_path / "errors" / "error.json"
    script.write_text(RAISES)
    ours = {"SPOTRUN_DIR": str(tmp_path), "TORCHELASTIC_ERROR_FILE": str(noted)}
    environment = {**os.environ, "PYTHONPATH": with_site(os.environ), **ours}
    ran = subprocess.run(
        [sys.executable, script],
        env=environment,
        start_new_session=starts_session,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "ArithmeticError: loss is not finite"
    assert noted.exists() is starts_session, "what a script has started is not what failed"
    if starts_session:
        said = json.loads(noted.read_text())["message"]["message"]
        where = "train.py:3 in step < train.py:6 in main < train.py:8 in <module>"
        assert said == f"ArithmeticError: loss is not finite at {where}"
