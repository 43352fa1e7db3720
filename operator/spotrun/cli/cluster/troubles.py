"""Failures of requests to a cluster: what happened, why, and what to try."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from spotrun.kube.errors import Ambiguous, Forbidden, KubeError, NotFound, Unauthorized

_OBJECT = re.compile(r'"[^"]+" not found')
"""The API server names a missing object so; without a name the kind itself is not known."""


class NoSuchJob(Exception):  # noqa: N818 - named for what it says, as those of kube/errors.py are
    """There is no job of that name; the message has jobs with similar names."""


class Refused(Exception):  # noqa: N818 - see above
    """The job cannot do what was asked; the message says why, and what to try."""


class Unreadable(Exception):  # noqa: N818 - see above
    """An object of the cluster cannot be read; the message says what is wrong with it."""


def is_missing(error: NotFound, name: str) -> bool:
    """Whether one object is missing, and not its whole kind."""
    return f'"{name}" not found' in error.message


def no_such_job(name: str, namespace: str, others: Sequence[tuple[str, str]]) -> NoSuchJob:
    """Return the error for a job that does not exist; others are (namespace, name)."""
    here = [other for where, other in others if where == namespace]
    elsewhere = [where for where, other in others if other == name]
    said = f"there is no TrainingJob {name!r} in namespace {namespace!r}"
    if elsewhere:
        return NoSuchJob(f"{said}, but in {', '.join(elsewhere)}: choose that namespace with -n")
    if near := get_close_matches(name, here, n=3, cutoff=0.5):
        return NoSuchJob(f"{said}. Did you mean {' or '.join(near)}?")
    if here:
        return NoSuchJob(f"{said}. `kubectl tjob list -n {namespace}` shows its {len(here)} jobs")
    return NoSuchJob(f"{said}, and no other one. `kubectl tjob list -A` lists all namespaces")


@contextmanager
def explained_denial(advice: str) -> Iterator[None]:
    """Explain which rights beyond TrainingJobs a command needs; raises Refused if denied."""
    try:
        yield
    except Forbidden as error:
        raise Refused(f"not allowed: {error}. {advice}") from error


def in_words(error: Exception) -> str:
    """Say what failed, for the user who typed the command."""
    return next((text for kind, text in _explained(error) if kind), f"the cluster refused: {error}")


def _explained(error: Exception) -> Iterator[tuple[bool, str]]:
    """Yield for each kind of failure whether it is this one, and its explanation."""
    status = error.status if isinstance(error, KubeError) else -1
    yield not isinstance(error, KubeError), str(error)
    yield from _denied(error)
    yield (
        isinstance(error, NotFound) and not _OBJECT.search(error.message),
        (
            "this cluster has no TrainingJobs: spotrun's CRDs are not installed. Install the chart "
            "(docs/install.md), or choose another --context"
        ),
    )
    yield (
        isinstance(error, Ambiguous),
        (
            f"the answer was lost ({error}): the change may have been made or not. Check with "
            "`kubectl tjob show`, then try again"
        ),
    )
    yield (
        "answer is not a" in str(error),
        f"an object cannot be read ({error}): the operator may be of another version than this",
    )
    yield (
        status == 0,
        (
            f"the cluster does not answer ({error}). Is it the right --context, and can "
            "`kubectl version` reach it?"
        ),
    )


def _denied(error: Exception) -> Iterator[tuple[bool, str]]:
    """Yield the same for requests that this user may not make."""
    yield (
        isinstance(error, Unauthorized),
        (
            f"the cluster does not accept these credentials ({error}). Log in again as your "
            "cloud's tool says, or choose another --context; `kubectl auth whoami` tries them"
        ),
    )
    yield (
        isinstance(error, Forbidden),
        (
            f"not allowed: {error}. The roles view and edit of a namespace include TrainingJobs "
            "where the chart was installed with rbac.aggregate; ask an admin for one of them"
        ),
    )
