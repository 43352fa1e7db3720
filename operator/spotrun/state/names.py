"""Names of our objects, and the hash of a worker's template: computed, never stored.

A creation whose answer was lost is simply repeated, because it has the same name.
"""

import base64
import functools
import hashlib
import json
import re

from spotrun.api.field_types.bounded import DnsName
from spotrun.api.trainingjob import TrainingJobSpec

_TAG_CHARACTERS = 5
_TEMPLATE_CHARACTERS = 16


@functools.lru_cache(maxsize=4096)  # called for every pod in every pass
def owned_name(job: str, uid: str) -> str:
    """The name of objects that a job has one of; another UID, of a new job, makes another name."""
    return f"{job}-{_short_hash(uid.encode(), _TAG_CHARACTERS)}"


def worker_name(job: str, uid: str, worker_id: int) -> str:
    """The name of a worker's pod."""
    return f"{owned_name(job, uid)}-{worker_id}"


def worker_id_of(name: str, job: str, uid: str) -> int | None:
    """The id of the worker whose pod has this name; None if it is not a worker of this job."""
    number = name.rpartition("-")[2]
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    if not is_number or worker_name(job, uid, int(number)) != name:
        return None
    return int(number)


def workload_name(job: str, uid: str, number: int) -> str:
    """The name of one of a job's Workloads in Kueue, by which it asks for workers."""
    return f"trainingjob-{owned_name(job, uid)}-{number}"


def asked_hash(template: str, queue: str) -> str:
    """Return the hash of what a Workload asks for, besides the number of workers."""
    return _short_hash(f"{template} {queue}".encode(), _TEMPLATE_CHARACTERS)


def template_hash(spec: TrainingJobSpec) -> str:
    """Return the hash of the template from which all workers of a world were created.

    Defaults are left out, so that an operator that knows a new field does not replace workers.
    """
    content = {
        "template": spec.workers.template.manifest(),
        "processes": spec.workers.processes,
        "checkpoint": spec.checkpoint
        and spec.checkpoint.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return _short_hash(text.encode(), _TEMPLATE_CHARACTERS)


def _short_hash(content: bytes, characters: int) -> str:
    # Base 32 in lower case is valid in both names and label values.
    digest = hashlib.sha256(content).digest()
    return base64.b32encode(digest)[:characters].decode().lower()


def checkpoint_folder(job: str, wanted: str | None) -> str:
    """Return the folder of a job's checkpoints: its own name, unless its annotation has another.

    An annotation that is not a plain name, and so may lead elsewhere, does not count.
    """
    is_name = wanted is not None and re.fullmatch(DnsName.pattern, wanted) is not None
    return wanted if wanted is not None and is_name else job
