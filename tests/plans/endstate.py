"""The end state of a run, without what differs between any two runs: to be compared. Pure.

Left out: UIDs, versions, times, addresses and ports (agents count them up), the namespace, and the
node that the scheduler chose, which decides the order of ranks.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.plans.history import Event, Manifest
from tests.plans.safety import numbers, worker_id_of

_TIMES = frozenset(
    {
        *("begunAt", "startedAt", "endedAt", "since", "endsSince"),
        *("time", "formedAt", "lastTransitionTime", "countedSince", "retryAt", "asOf"),
        "unpricedSeconds",
    }
)
_RANKED = frozenset({"members", "stateHolders"})
_KEPT_OF_META = ("name", "labels", "annotations", "finalizers", "ownerReferences")
_OWN_IDENTITY = frozenset({"SPOTRUN_CA"})


def end_state(objects: Mapping[str, list[Manifest]], words: Mapping[str, str]) -> dict[str, Any]:
    """Everything by kind and name, made comparable; `words` are a run's own, with stand-ins."""
    found = {
        f"{kind}/{one['metadata']['name']}": _object(kind, one)
        for kind, several in objects.items()
        for one in several
    }
    plain: dict[str, Any] = _scrubbed(found, words)
    return plain


def summary(events: Iterable[Event]) -> dict[str, dict[str, int]]:
    """Count how often each worker was made and was gone: catches what was made twice."""
    made: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    for event in events:
        if event.kind == "Pod":
            worker = f"worker {worker_id_of(event.object)}"
            made[worker] += event.type == "ADDED"
            gone[worker] += event.type == "DELETED"
    return {"made": dict(sorted(made.items())), "gone": dict(sorted((+gone).items()))}


def differences(expected: Any, actual: Any, path: str = "") -> list[str]:
    """Return the places where two end states differ."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = []
        for key in sorted({*expected, *actual}):
            found += differences(expected.get(key), actual.get(key), f"{path}.{key}")
        return found
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [d for n, (e, a) in pairs for d in differences(e, a, f"{path}[{n}]")]
    return [] if expected == actual else [f"{path}: {actual!r} instead of {expected!r}"]


def _object(kind: str, one: Manifest) -> Manifest:
    meta = {k: v for k, v in one["metadata"].items() if k in _KEPT_OF_META}
    meta["isGoing"] = "deletionTimestamp" in one["metadata"]
    if kind == "pods":
        return {"metadata": meta, **_pod(one)}
    if kind == "secrets":
        return {"metadata": meta, "data": sorted(one.get("data") or ())}
    return {"metadata": meta, "spec": one.get("spec"), "status": one.get("status")}


def _pod(pod: Manifest) -> Manifest:
    spec = {k: v for k, v in pod["spec"].items() if k != "nodeName"}
    for container in spec["containers"]:
        told = container.get("env", ())  # containers that others put there have none
        container["env"] = [e for e in told if e["name"] not in _OWN_IDENTITY]
    ends = [
        (status["state"].get("terminated") or {}).get("message")
        for status in pod["status"].get("containerStatuses", ())
    ]
    return {"spec": spec, "phase": pod["status"].get("phase"), "ends": ends}


def _scrubbed(value: Any, words: Mapping[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        # Names of pods carry a hash of the job's UID, tokens' volumes a random suffix.
        return {
            _text(k, words): _scrubbed(v, words, k) for k, v in value.items() if k not in _TIMES
        }
    if key == "usedStores":
        return len(value or ())
    if isinstance(value, list | tuple):
        return [_scrubbed(one, words) for one in value]
    if key in {"store", "node"}:
        return value is not None
    if key in _RANKED and isinstance(value, str):
        return sorted(numbers(value))
    return _text(value, words) if isinstance(value, str) else value


def _text(text: str, words: Mapping[str, str]) -> str:
    for word, stand_in in words.items():
        text = text.replace(word, stand_in)
    text = re.sub(r"\bkube-api-access-\w{5}\b", "kube-api-access-<random>", text)
    return re.sub(r"\b(job|high|search-[0-9])-[a-z0-9]{5}\b", r"\1-<hash>", text)
