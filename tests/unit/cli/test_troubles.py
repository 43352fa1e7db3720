"""Failures of requests to a cluster, as the user who typed the command reads them."""

import argparse

import msgspec
import pytest

from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import in_words, no_such_job
from spotrun.kube.errors import Ambiguous, Forbidden, KubeError, NotFound, Retryable, Unauthorized


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unauthorized("no", status=401), "Log in again"),
        (Forbidden("pods is forbidden", status=403), "not allowed: pods is forbidden. The roles"),
        (NotFound("404 page not found", status=404), "spotrun's CRDs are not installed"),
        (NotFound("the server could not find the requested resource", status=404), "CRDs"),
        (NotFound('namespaces "x" not found', status=404), 'refused: namespaces "x" not found'),
        (Retryable("the API server's answer is not a Job: Expected `int`"), "another version"),
        (Retryable("GET / was not sent: cannot connect"), "the cluster does not answer"),
        (Ambiguous("PATCH / got no answer"), "the change may have been made or not"),
        (KubeError("too large", status=413), "the cluster refused: too large"),
        (OSError("no such file"), "no such file"),
    ],
)
def test_a_failure_says_what_happened_and_what_to_try(error: Exception, said: str) -> None:
    assert said in in_words(error)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([("ml", "gpt-2"), ("web", "other")], "Did you mean gpt-2?"),
        ([("web", "gpt")], "but in web: choose that namespace with -n"),
        ([("ml", "zzz")], "`kubectl tjob list -n ml` shows its 1 jobs"),
        ([], "and no other one"),
    ],
)
def test_a_job_that_is_not_there_is_looked_for(others: list[tuple[str, str]], said: str) -> None:
    assert said in str(no_such_job("gpt", "ml", others))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (no_such_job("gpt", "ml", []), 4),
        (Forbidden("no", status=403), 3),
        (msgspec.ValidationError("Expected `int`"), 3),
    ],
)
def test_a_failure_is_an_exit_code_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    async def work(_: Cluster) -> int:
        raise error

    async def asked(_: argparse.Namespace, work: object) -> int:
        raise error

    monkeypatch.setattr("spotrun.cli.cluster.session._asked", asked)
    assert ask(argparse.Namespace(command="show"), work) == code
    assert capsys.readouterr().err.startswith("kubectl tjob show: ")


def test_a_reader_that_has_gone_is_left_to_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(_: argparse.Namespace, work: object) -> int:
        raise BrokenPipeError

    async def work(_: Cluster) -> int:
        return 0

    monkeypatch.setattr("spotrun.cli.cluster.session._asked", asked)
    with pytest.raises(BrokenPipeError):
        ask(argparse.Namespace(command="list"), work)
