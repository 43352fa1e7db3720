"""The errors of object stores, as the OSError that a file system would raise.

An error of obstore contains the store's whole answer, with the request's signature in it: only the
code is kept of it, and the rest is never logged.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)

_ABSENT = {"", "NoSuchKey", "BlobNotFound"}
"""The codes of a 404 that mean a missing object; a missing bucket does not mean that nothing was
saved."""
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"(?:status code: |\(code: )(\d+)")  # the latter of one in a bulk of Azure's
_OUT_OF_RANGE = ("Invalid range", "Wanted range starting at")  # obstore's own text, without a 416
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")

_SENTENCES = {
    "NoSuchBucket": "the bucket does not exist",
    "ContainerNotFound": "the container does not exist",
    "AccessDenied": "access was denied",
    "ExpiredToken": "the credentials have expired",
    "RequestTimeTooSkewed": "this machine's clock and the store's differ too much",
    "InvalidAccessKeyId": "the store does not know the access key",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "SlowDown": "the store asks for fewer requests",
    "InvalidRange": "it is shorter than what was written",
    "PermanentRedirect": "the bucket is in another region: set AWS_REGION",
}
_DENIED = {
    "AccessDenied",
    "AllAccessDisabled",
    "AuthorizationFailure",
    "AuthorizationPermissionMismatch",
    "ContainerNotFound",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "NoSuchBucket",
    "PermanentRedirect",
    "SignatureDoesNotMatch",
}


class DeniedError(PermissionError):
    """The store refused for good: rights, credentials, or the bucket are not as they should be."""


class CutOffError(OSError):
    """An answer was cut off; the store may have done what was asked for."""


@contextmanager
def as_os_error(where: str) -> Iterator[None]:
    """Raise obstore's errors as OSError, with a message of one line."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, "exists already", where) from error
    except FileNotFoundError as error:
        if _code_in(str(error)) in _ABSENT:
            raise FileNotFoundError(errno.ENOENT, "is not there", where) from None
        raise DeniedError(errno.EACCES, sentence(str(error)), where) from None
    except (NotSupportedError, NotImplementedError) as error:
        raise OSError(errno.ENOTSUP, "the store cannot do that", where) from error
    except BaseError as error:
        raise _os_error(error, where) from None


def sentence(text: str) -> str:
    """Say what a store answered."""
    code, status = _code_in(text), _status_in(text)
    of_code = f" ({' '.join(one for one in (str(status or ''), code) if one)})"
    if any(one in text for one in _METADATA_SERVICES):
        return "no credentials were found, in the environment or from an identity of the pod"
    if code in _SENTENCES:
        return _SENTENCES[code] + of_code
    if status in {401, 403}:
        return "access was denied" + of_code
    if status in {429, 503}:
        return "the store asks for fewer requests, or is not available" + of_code
    if status:
        return "the store failed" + of_code
    return f"the store cannot be reached ({_last_cause(text)})"


def _os_error(error: BaseError, where: str) -> OSError:
    text = str(error)
    said = sentence(text)
    is_denied = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    if is_denied or _code_in(text) in _DENIED or "no credentials" in said:
        return DeniedError(errno.EACCES, said, where)
    if _status_in(text) == 416 or any(one in text for one in _OUT_OF_RANGE):
        return OSError(errno.EINVAL, _SENTENCES["InvalidRange"], where)
    is_cut_off = not _status_in(text) and "response body" in text.partition("\n")[0]
    return (CutOffError if is_cut_off else OSError)(errno.EIO, said, where)


def _code_in(text: str) -> str:
    found = _CODE.search(text)
    return found[1] if found else ""


def _status_in(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _last_cause(text: str) -> str:
    """Return the innermost reason in the first paragraph, which has no secrets: only addresses."""
    first = text.partition("\n")[0]
    return first.rpartition(" - ")[2][:120]
