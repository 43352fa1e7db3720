"""TAB behind `kubectl tjob`, as kubectl asks for it."""

import pytest

from spotrun.cli import completion
from spotrun.cli.completion import candidates, main
from spotrun.cli.kubectl import VERBS


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Names of a cluster, and the words with which it was asked."""
    asked: list[list[str]] = []

    def live(words: list[str], what: str) -> list[str]:
        asked.append([what, *words])
        return {"jobs": ["gpt\tRunning", "bert\tPending"], "namespaces": ["ml", "web"]}[what]

    monkeypatch.setattr(completion, "_live", live)
    return asked


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        (["sus"], ["suspend\tsave a checkpoint, and give all workers back"], ":4"),
        (["show", ""], ["bert\tPending", "gpt\tRunning"], ":4"),
        (["show", "-n", "ml", "g"], ["gpt\tRunning"], ":4"),
        (["show", "-n", ""], ["ml", "web"], ":4"),
        (["show", "gpt", ""], [], ":4"),
        (["list", ""], [], ":4"),
        (["list", "--sort", "d"], ["dollars"], ":4"),
        (["cost", "-o", ""], ["csv", "json", "yaml"], ":4"),
        (["run", ""], [], ":0"),
        (["run", "train.py", "--", "x"], [], ":0"),
        (["doctor", "-f", ""], [], ":0"),
        (["nonsense", ""], [], ":0"),
    ],
)
def test_a_word_is_completed(words: list[str], found: list[str], directive: str) -> None:
    assert candidates(words) == (found, directive)


@pytest.mark.parametrize("verb", VERBS)
def test_the_flags_of_every_verb_are_offered_with_their_help(verb: str) -> None:
    found, _ = candidates([verb, "--"])
    assert found
    assert [one for one in found if not one.partition("\t")[2]] == []


def test_kubectl_gets_a_line_for_each_and_the_directive(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "g"]) == 0
    assert capsys.readouterr().out == "gpt\tRunning\n:4\n"


def test_a_cluster_that_is_not_there_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    assert candidates(["show", "g"]) == ([], ":4")
