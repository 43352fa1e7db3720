"""The errors of the client: each says what happened, why, and what to try."""

import re
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from spotrun.cli.cluster import troubles
from spotrun.cli.cluster.troubles import NoSuchJob, Refused, Unreadable
from spotrun.kube.errors import KubeError
from spotrun.kube.rest.access import AccessError

T = TypeVar("T")

_FLAG = re.compile(r"--([a-z][a-z-]*)")


class ClientError(Exception):
    """The base of what the client raises, apart from ValueError and TimeoutError."""


class NoSuchJobError(ClientError):
    """There is no job of that name."""


class RefusedError(ClientError):
    """The job cannot do what was asked."""


class ClusterError(ClientError):
    """The cluster does not answer, or does not allow it."""


class JobFailedError(ClientError):
    """The job that was waited for has failed."""


async def in_words(work: Coroutine[Any, Any, T]) -> T:
    """Await something; its errors are raised in the words of the command line."""
    try:
        return await work
    except NoSuchJob as error:
        raise NoSuchJobError(_in_python(error)) from None
    except Refused as error:
        raise RefusedError(_in_python(error)) from None
    except (msgspec.MsgspecError, Unreadable) as error:
        raise ClusterError(
            f"an object of the cluster cannot be read ({error}): its operator may be of another "
            "version than this package"
        ) from error
    except TimeoutError:
        raise
    except (AccessError, KubeError, OSError) as error:
        raise ClusterError(_in_python(troubles.in_words(error))) from error
    except ValueError as error:
        raise ValueError(_in_python(error)) from None


def _in_python(message: object) -> str:
    """Write flags as Python's arguments: these have the same names."""
    return _FLAG.sub(lambda found: found[1].replace("-", "_") + "=", str(message))
