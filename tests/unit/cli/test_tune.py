import json
import subprocess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from spotrun.api import load
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.api.tuning.words import TrialPhase
from spotrun.cli.jobs.tune.table import page
from spotrun.cli.kubectl import main
from spotrun.policies.tuning.codec import write
from tests.support.tuning.searches import SearchBuilder, a_search

DONE = TrialPhase.SUCCEEDED


def stored(search: SearchBuilder) -> TuningJob:
    """Return the search as kubectl prints it."""
    status = json.loads(json.dumps(write(search.decide().status).manifest()))
    found = load({**search.manifest, "status": status})
    assert isinstance(found, TuningJob)
    return found


SEARCH = (
    a_search(trials={"max": 4}, budget={"maxCostUsd": "9"})
    .with_trial(DONE, value=0.5, step=100, cost="1.25")
    .with_trial(DONE, value=0.25, step=100, cost="2", checkpoint="ml/search-1/step-100")
    .with_trial(TrialPhase.PRUNED, value=0.9, step=30, cost="0.5")
    .with_trial(TrialPhase.FAILED)
)


def test_trials_are_listed_the_best_first() -> None:
    lines = page(stored(SEARCH)).splitlines()
    assert lines[0] == "search: Succeeded"
    assert "best checkpoint: ml/search-1/step-100" in lines
    assert lines[-5:] == [
        "TRIAL   PHASE       LOSS   STEP   COST($)   LR",
        "1       Succeeded   0.25   100    2.0000    0.02",
        "0       Succeeded   0.5    100    1.2500    0.01",
        "2       Pruned      0.9    30     0.5000    0.03",
        "3       Failed      -      -      0.0000    0.04",
    ]


def test_what_matters_is_told_once_enough_trials_are_complete() -> None:
    search = a_search(trials={"max": 5})
    for value in (0.1, 0.2, 0.4, 0.3, 0.5):
        search = search.with_trial(DONE, value=value)
    assert page(stored(search)).splitlines()[-1] == f"  lr  {'#' * 18}    +0.90"
    assert "rank correlation" not in page(stored(SEARCH))


def test_a_search_that_has_not_begun_says_so() -> None:
    assert page(stored(a_search())).endswith("no trial has begun")


def test_the_command_reads_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "search.yaml"
    file.write_text(json.dumps(stored(SEARCH).manifest()))
    assert main(["tune", "-f", str(file)]) == 0
    assert "TRIAL   PHASE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [([], "give the NAME of a TuningJob"), (["a", "-f", "b"], "and not both")],
)
def test_wrong_flags_are_told(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_code:
        main(["tune", *arguments])
    assert exit_code.value.code == 2
    assert says in capsys.readouterr().err


def test_a_search_of_another_version_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answered(*_: Any, **__: Any) -> CompletedProcess[str]:
        return CompletedProcess((), 0, "{kind: TuningJob, apiVersion: spotrun.dev/v9}", "")

    monkeypatch.setattr(subprocess, "run", answered)
    assert main(["tune", "a"]) == 1
    assert "the search cannot be read" in capsys.readouterr().err
