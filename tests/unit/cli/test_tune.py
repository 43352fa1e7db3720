import json
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from spotrun.api import load
from spotrun.api.names import Phase, SuspendedBy
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.cli.cluster import session
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.jobs.tune.axes import axes
from spotrun.cli.jobs.tune.table import page, ranked_trials
from spotrun.cli.kubectl import main
from spotrun.cli.report.search import report_on_search
from spotrun.cli.report.writing import as_html, as_json, as_markdown
from spotrun.kube.errors import Forbidden, NotFound
from spotrun.policies.tuning.codec import write
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import SearchBuilder, a_job, a_search

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


def test_one_that_is_held_says_what_it_waits_for() -> None:
    search = a_search().with_trial(reason=TuningReason.QUEUED, message="Queue: the job waits")
    held = a_job(Phase.SUSPENDED, suspended_by=(SuspendedBy.QUEUE,), message="Queue: the job waits")
    *_, line = page(stored(search.with_job(0, held))).splitlines()
    assert line.startswith("0       Running, Queued   ")


def test_what_matters_is_told_once_enough_trials_are_complete() -> None:
    search = a_search(trials={"max": 5})
    for value in (0.1, 0.2, 0.4, 0.3, 0.5):
        search = search.with_trial(DONE, value=value)
    assert page(stored(search)).splitlines()[-1] == f"  lr  {'#' * 18}    +0.90"
    assert "rank correlation" not in page(stored(SEARCH))


CURVED = a_search(
    trials={"max": 6},
    parameters=[
        {"name": "lr", "logUniform": {"min": "0.0001", "max": "1"}},
        {"name": "width", "categorical": {"choices": ["4", "16", "64"]}},
    ],
)
for lr, width, loss in (
    ("0.0001", "4", 9.0), ("0.01", "16", 1.0), ("0.01", "16", 2.0), ("1", "64", 8.0),
    ("0.001", "4", 3.0), ("0.1", "64", 5.0),
):  # fmt: skip
    CURVED = CURVED.with_trial(DONE, values={"lr": lr, "width": width}, value=loss)


def test_the_best_trials_are_shown_as_parallel_coordinates() -> None:
    lines = page(stored(CURVED)).splitlines()
    at = lines.index("where the best 5 trials lie (1 is the best, a dot is another one):")
    assert lines[at + 1 : at + 11] == [
        "  LR       WIDTH   LOSS",
        "  1        64      9",
        "  | 5      | 45    | .",
        "  |        |       | 5",
        "  | 4      |       |",
        "  | 12     | 12    | 4",
        "  | 3      |       | 3",
        "  |        |       | 2",
        "  | .      | 3.    | 1",
        "  0.0001   4       1",
    ]


def test_a_report_on_a_search_draws_its_trials() -> None:
    search = stored(CURVED.with_trial(TrialPhase.FAILED))
    made = report_on_search(search, search.manifest(), NOW)
    html = as_html(made)
    assert html.count('<path fill="none"') == 6, "what failed has no line"
    assert ">LR</td>" in html
    assert "Search" in as_markdown(made)
    assert json.loads(as_json(made))["coordinates"]["best"][0] == 1
    empty = stored(a_search())
    assert "<svg" not in as_html(report_on_search(empty, empty.manifest(), NOW))


def test_a_parameter_that_a_trial_lacks_breaks_its_line() -> None:
    search = a_search(
        trials={"max": 2},
        parameters=[
            {"name": "opt", "categorical": {"choices": ["sgd", "adam"]}},
            {"name": "momentum", "uniform": {"min": "0", "max": "1"},
             "when": [{"parameter": "opt", "values": ["sgd"]}]},
        ],
    ).with_trial(DONE, values={"opt": "adam"}, value=1.0)  # fmt: skip
    opt, momentum, loss = axes(stored(search), ranked_trials(stored(search)))
    assert (opt.heights, momentum.heights, loss.heights) == ({0: 1.0}, {}, {0: 0.5})


def test_a_search_that_has_not_begun_says_so() -> None:
    assert page(stored(a_search())).endswith("no trial has begun")


def test_the_command_reads_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "search.yaml"
    file.write_text(json.dumps(stored(SEARCH).manifest()))
    assert main(["tune", "-f", str(file)]) == 0
    assert "TRIAL   PHASE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give the NAME of a TuningJob"),
        (["a", "-f", "b"], "and not both"),
        (["search.yaml"], "search.yaml is not the NAME of a TuningJob; read a file with -f"),
    ],
)
def test_wrong_flags_are_told(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_code:
        main(["tune", *arguments])
    assert exit_code.value.code == 2
    assert says in capsys.readouterr().err


class Stored:
    """A client that answers with what a cluster stores."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer

    async def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (stored(SEARCH).manifest(), 0, "search: Succeeded"),
        (
            {"kind": "TuningJob", "apiVersion": "spotrun.dev/v9"},
            3,
            "its operator may be of another version",
        ),
        (NotFound('tuningjobs.spotrun.dev "a" not found', status=404), 4, "no TuningJob 'a' in"),
        (NotFound("the server could not find it", status=404), 3, "CRDs are not installed"),
        (Forbidden("no", status=403), 3, "not allowed"),
    ],
)
def test_the_cluster_answers_with_the_exit_codes_of_all_verbs(
    answer: Any,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @asynccontextmanager
    async def connected(_: Namespace) -> AsyncIterator[Cluster]:
        yield Cluster(cast("Any", Stored(answer)), cast("Any", None), "ml", "here")

    monkeypatch.setattr(session, "connected", connected)
    assert main(["tune", "a", "--kubeconfig", "config"]) == code
    said = capsys.readouterr()
    assert says in (said.err if code else said.out)


def test_without_a_kubeconfig_the_cluster_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "a", "--kubeconfig", str(tmp_path / "none")]) == 3
    assert "there is no kubeconfig at" in capsys.readouterr().err
