"""Types of fields that several models use: bounded numbers and checked strings."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from spotrun.api.field_types.text_values import Text, WorkerIds
from spotrun.wire import MOST_STEPS

# Every number has bounds: they decide between int32 and int64 in the CRD, and prevent overflows.
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Long = Annotated[int, Field(ge=0, le=MOST_STEPS)]
# More than any job has run on; the bound gives rules over sizes a known cost.
Workers = Annotated[int, Field(ge=1, le=10_000)]
PercentOf = Annotated[int, Field(ge=1, le=100)]

MAX_MESSAGE_CHARS = 4_096  # of a message in status or in a condition
MAX_DETAIL_CHARS = 1_024  # of one error, failure or refusal in such a message
MAX_QUOTE_CHARS = 300  # of another component's message in it

ShortText = Annotated[str, Field(max_length=253)]
LongText = Annotated[str, Field(max_length=MAX_MESSAGE_CHARS)]
# For lists: the API server allows no rules there, because it would count them for every entry.
ListedWorkerIds = Annotated[
    WorkerIds, WithJsonSchema({"type": "string", "maxLength": WorkerIds.max_length})
]


class DnsLabel(Text):
    """A name as Kubernetes gives it to containers: letters, digits and hyphens."""

    __slots__ = ()
    pattern = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
    max_length = 63
    hint = "must be lower-case letters, digits and hyphens, at most 63, no hyphen at an end"


class DnsName(Text):
    """A name as Kubernetes gives it to most objects: DNS labels between dots."""

    __slots__ = ()
    pattern = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    max_length = 253
    hint = "must be lower-case letters, digits, hyphens and dots, as in names of Kubernetes objects"


class ControllerName(Text):
    """The name of a controller, with a domain before it, as `spec.managedBy` of a Job has it."""

    __slots__ = ()
    pattern = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9._/]*[A-Za-z0-9])?"
    max_length = 63
    hint = 'must be a name with a domain, like "kueue.x-k8s.io/multikueue", at most 63 characters'


class LabelKey(Text):
    """The key of a label."""

    __slots__ = ()
    pattern = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
    max_length = 316
    hint = 'must be a label key, like "app" or "example.com/team"'


class LabelValue(Text):
    """The value of a label."""

    __slots__ = ()
    pattern = "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
    max_length = 63
    hint = "must be a label value: at most 63 letters, digits, and - _ . in between"
