"""What autoscalers say of a pod: for how long it counts, and who has the last word."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from spotrun.kube.resource import Key
from spotrun.observe.kube_objects import EventObject
from spotrun.observe.pools.autoscaler_events import GOOD_FOR, Autoscalers

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
FULL = "pod didn't trigger scale-up: 1 max node group size reached"
SAID = f"cluster-autoscaler: {FULL}"

Spoken = tuple[str, EventObject]


def an_event(by: str, reason: str, note: str, seconds_ago: float = 5, **parts: Any) -> Spoken:
    content = {
        "metadata": {
            "name": f"{reason}.{seconds_ago}",
            "namespace": parts.pop("namespace", "ns"),
            "uid": "e",
            "resourceVersion": "1",
        },
        "regarding": {"kind": "Pod", "name": "w0", "uid": "w"},
        "reason": reason,
        "note": note,
        "deprecatedLastTimestamp": (NOW - timedelta(seconds=seconds_ago)).isoformat(),
        **parts,
    }
    return by, msgspec.convert(content, EventObject)


def refuses(note: str = FULL, seconds_ago: float = 5, **parts: Any) -> Spoken:
    return an_event("cluster-autoscaler", "NotTriggerScaleUp", note, seconds_ago, **parts)


def promises(seconds_ago: float = 5, **parts: Any) -> Spoken:
    note = "pod triggered scale-up"
    return an_event("cluster-autoscaler", "TriggeredScaleUp", note, seconds_ago, **parts)


def karpenter(reason: str, seconds_ago: float = 5) -> Spoken:
    return an_event("karpenter", reason, "Failed to schedule pod, no instance type", seconds_ago)


def autoscalers(*spoken: Spoken) -> tuple[Autoscalers, list[tuple[Key, str]]]:
    told: list[tuple[Key, str]] = []
    made = Autoscalers(
        cast("Any", None), None, lambda key, uid: told.append((key, uid)), lambda: NOW
    )
    for by, event in spoken:
        reflector = made._by_name[by]
        reflector._tell(reflector.store.put(event))
    return made, told


def refusal(*spoken: Spoken) -> str:
    return autoscalers(*spoken)[0].refusal_of("ns", "w")


def test_a_refusal_is_told_and_quoted_with_who_says_it() -> None:
    made, told = autoscalers(refuses())
    assert told == [(Key("ns", "w0"), "w")]
    assert made.refusal_of("ns", "w") == SAID
    assert not made.refusal_of("ns", "another pod of that name")


def test_karpenter_refuses_in_its_own_words() -> None:
    said = "karpenter: Failed to schedule pod, no instance type"
    assert refusal(karpenter("FailedScheduling")) == said


@pytest.mark.parametrize(
    "event",
    [
        refuses(seconds_ago=GOOD_FOR.total_seconds()),
        refuses(seconds_ago=-61),
        refuses(deprecatedLastTimestamp=None),
        refuses(deprecatedLastTimestamp="yesterday"),
        refuses(regarding={"kind": "Pod", "name": "w0"}),
        refuses(namespace="of-an-attacker"),
        an_event("cluster-autoscaler", "ScaleDown", "node removed by cluster autoscaler"),
    ],
    ids=["stale", "of the future", "timeless", "no time", "of no pod", "from elsewhere", "other"],
)
def test_what_does_not_count(event: Spoken) -> None:
    assert not refusal(event)


@pytest.mark.parametrize(
    ("spoken", "expected"),
    [
        ((refuses(seconds_ago=60), promises(seconds_ago=5)), ""),
        ((promises(seconds_ago=60), refuses(seconds_ago=5)), SAID),
        ((refuses(), promises()), ""),
        ((refuses(seconds_ago=5), karpenter("Nominated", 90)), ""),
        ((refuses(seconds_ago=5), karpenter("Nominated", 700)), SAID),
        ((promises(seconds_ago=30), karpenter("FailedScheduling")), ""),
    ],
    ids=[
        "it makes a node after all",
        "the node that it promised did not come",
        "within one second the better word counts",
        "another autoscaler makes one",
        "the other's promise is old",
        "this one's node is none of the other's",
    ],
)
def test_the_last_word_of_each_counts_and_one_promise_is_enough(
    spoken: tuple[Spoken, ...], expected: str
) -> None:
    assert refusal(*spoken) == expected


@pytest.mark.parametrize(
    "note",
    [
        "pod didn't trigger scale-up: 2 Insufficient cpu, 1 max node group size reached",
        "pod didn't trigger scale-up: 1 max node group size reached, 2 Insufficient cpu",
        f"(combined from similar events): {FULL}, 2 Insufficient cpu",
    ],
)
def test_a_refusal_that_is_repeated_has_the_same_words(note: str) -> None:
    assert refusal(refuses(note)) == f"{SAID}, 2 Insufficient cpu"


def test_words_for_a_terminal_are_one_line_and_not_too_long() -> None:
    said = refusal(refuses("pod didn't trigger scale-up: 1 \x1b[31m\n" + "x" * 5000))
    assert said.isprintable()
    assert len(said) <= 300
