import pytest

from spotrun.act.errors import (
    SOON_SECONDS,
    Trouble,
    on_creation,
    on_removal,
    on_write,
    wants_restricted,
)
from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.kube.errors import (
    Ambiguous,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Retryable,
    Unauthorized,
)
from spotrun.state.snapshot import Refusal

QUOTA = Forbidden('pods "a" is forbidden: exceeded quota: few')
ENDS = Forbidden("it goes", causes=(Cause("NamespaceTerminating", "it goes"),))
UNSURE = Ambiguous("no answer")
BUSY = Retryable("busy", retry_after_seconds=7)
ANONYMOUS = Unauthorized("who?")


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (QUOTA, Trouble(refusal=Refusal("QuotaExceeded", "exceeded quota: few"))),
        (
            Forbidden("failed quota: few"),
            Trouble(refusal=Refusal("TemplateRefused", "failed quota: few")),
        ),
        (Invalid("x" * 2000), Trouble(refusal=Refusal("TemplateRefused", "x" * MAX_DETAIL_CHARS))),
        (ENDS, Trouble(is_terminating=True)),
        (Conflict("quota changed"), Trouble(wake_after_seconds=SOON_SECONDS)),
        (UNSURE, Trouble(failure=UNSURE)),
        (BUSY, Trouble(failure=BUSY)),
        (ANONYMOUS, Trouble(failure=ANONYMOUS)),
    ],
    ids=str,
)
def test_a_creation_that_did_not_succeed(error: KubeError, trouble: Trouble) -> None:
    assert on_creation(error) == trouble


def test_a_write_is_not_refused_by_its_content() -> None:
    # Of a status: a bug of ours or missing rights; the user can do nothing about either.
    assert on_write(QUOTA) == Trouble(failure=QUOTA)


def test_what_is_gone_need_not_be_taken_away() -> None:
    assert on_removal(NotFound("gone")) is None
    assert on_removal(Conflict("another")) == Trouble(wake_after_seconds=SOON_SECONDS)


def test_one_name_that_is_taken_does_not_stop_the_others() -> None:
    assert not Trouble(refusal=Refusal("NameTaken", "")).stops_creations
    assert Trouble(refusal=Refusal("TemplateRefused", "")).stops_creations
    assert Trouble(failure=BUSY).stops_creations
    assert Trouble(is_terminating=True).stops_creations


def test_pod_security_is_known_by_its_words() -> None:
    words = 'pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
    assert wants_restricted(Forbidden(words))
    assert not wants_restricted(Forbidden(words.replace("restricted:", "baseline:")))
    assert not wants_restricted(Invalid(words))
