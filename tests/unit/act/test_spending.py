"""The writes of SpendLimits: each may be disturbed, and in the end all is as if it had not been."""

import asyncio
from decimal import Decimal

import pytest

from spotrun.api.names import FINALIZER_SPEND
from spotrun.kube.errors import Conflict, Invalid, KubeError, NotLeading
from tests.support.money.spend_namespace import (
    NAMESPACE,
    Disturbance,
    Fault,
    KilledError,
    Operator,
    SpendNamespace,
)

HELD = [str(FINALIZER_SPEND)]
UNREADABLE = {"workers": {"min": "many"}}
# A start needs $2.60: ten minutes of a worker at $10, and its end, 1.2 times that.
TWO_FIT = "6"


def a_place(limit_usd: str = TWO_FIT, *jobs: str) -> SpendNamespace:
    place = SpendNamespace()
    place.limit(limitUsd=limit_usd)
    for name in jobs:
        place.job(name)
    return place


def asking(place: SpendNamespace, *names: str) -> Operator:
    operator = place.operator()
    for name in names:
        assert operator.asks(name)
    return operator


async def keep(operator: Operator) -> float | None:
    return await operator.keeper.keep(NAMESPACE)


async def test_a_job_may_start_once_the_finalizer_holds_what_it_will_spend() -> None:
    place = a_place(TWO_FIT, "a", "b", "c")
    operator = asking(place, "a", "b", "c")
    await keep(operator)
    assert operator.said() == {"uid-a": True, "uid-b": True, "uid-c": False}
    assert place.get("a")["metadata"]["finalizers"] == HELD
    assert place.state()["heldJobs"] == ["c"]
    place.see(operator)
    await keep(operator)
    assert len(place.writes) == 4, "three finalizers and a status, and nothing twice"


async def test_other_finalizers_of_a_job_stay() -> None:
    place = a_place()
    place.job("a", workers=1, meta={"finalizers": ["example.com/theirs"]})
    operator = place.operator()
    await keep(operator)
    assert place.get("a")["metadata"]["finalizers"] == ["example.com/theirs", *HELD]
    place.delete("team", "spendlimits")
    place.see(operator)
    await keep(operator)
    assert place.get("a")["metadata"]["finalizers"] == ["example.com/theirs"]


@pytest.mark.parametrize("error", [Conflict("changed"), Invalid("no resourceVersion")])
async def test_a_job_whose_finalizer_is_not_taken_does_not_start_yet(error: KubeError) -> None:
    place = a_place(TWO_FIT, "a", "b")
    operator = asking(place, "a", "b")
    place.fault = Fault(1, "before", error)
    again = await keep(operator)
    assert operator.said() == {"uid-a": False, "uid-b": True}
    assert again is not None
    assert again < 1
    place.see(operator)
    await keep(operator)
    assert operator.said() == {"uid-a": True, "uid-b": True}


async def test_nothing_is_decided_before_its_own_writes_are_seen() -> None:
    place = a_place(TWO_FIT, "a")
    operator = asking(place, "a")
    await keep(operator)
    writes = list(place.writes)
    assert await keep(operator) is not None, "it looks again soon"
    assert place.writes == writes


async def test_sums_alone_are_written_twice_a_minute_and_what_is_urgent_at_once() -> None:
    place = a_place("100")
    place.job("a", workers=1, usd="1", meta={"finalizers": HELD})
    operator = place.operator()
    await keep(operator)
    place.job("a", workers=1, usd="2", meta={"finalizers": HELD})
    place.see(operator)
    place.clock = 10
    assert await keep(operator) == 20
    assert place.state()["spentUsd"] == "1"
    place.clock = 30
    await keep(operator)
    assert place.state()["spentUsd"] == "2"
    place.job("a", workers=1, usd="101", meta={"finalizers": HELD})
    place.see(operator)
    await keep(operator)
    assert place.state()["usedPercent"] == "101%"
    assert place.clock == 30


async def test_a_deleted_job_is_released_only_when_its_spending_is_stored() -> None:
    place = a_place("100")
    place.job("a", workers=1, usd="7", phase="Running", meta={"finalizers": HELD})
    operator = place.operator()
    await keep(operator)
    place.delete("a")
    place.see(operator)
    await keep(operator)
    assert place.has("a"), "what is stored has yet to be seen"
    assert Decimal(place.state()["deletedUsd"]) == 7
    for _ in range(3):
        place.see(operator)
        await keep(operator)
    assert not place.has("a")
    assert Decimal(place.state()["spentUsd"]) == 7
    assert not place.state().get("closing")


async def test_a_deleted_job_whose_spec_cannot_be_read_is_counted_and_released() -> None:
    place = a_place("100")
    held = {"finalizers": HELD}
    place.job("a", workers=1, usd="7", spec=UNREADABLE, phase="Running", meta=held)
    operator = place.operator()
    place.delete("a")
    for _ in range(4):
        place.see(operator)
        await keep(operator)
    assert not place.has("a")
    assert Decimal(place.state()["spentUsd"]) == 7


async def test_what_cannot_be_decided_holds_those_who_ask_and_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    place = a_place(TWO_FIT, "a")
    place.job("runs", workers=1, meta={"finalizers": HELD})
    operator = asking(place, "a")
    monkeypatch.setattr("spotrun.act.jobs.spending.decide", fails)
    assert await keep(operator) == 60
    verdict = operator.spending.verdicts_of(NAMESPACE)
    assert verdict.keys() == {"uid-a"}
    assert "its log has the error" in verdict["uid-a"].holds
    assert "spendlimits of ns could not be decided" in caplog.text
    assert place.writes == []


async def test_who_leads_no_more_writes_nothing() -> None:
    place = a_place(TWO_FIT, "a")
    operator = asking(place, "a")
    place.leads = False
    with pytest.raises(NotLeading):
        await keep(operator)
    assert place.writes == []
    assert operator.said() == {}


def test_a_new_leader_tells_jobs_what_follows_before_the_first_is_decided() -> None:
    place = a_place("1")
    place.job("a", suspendedBy=["SpendLimit"])
    operator = place.operator()
    operator.keeper.begin()
    assert operator.said() == {"uid-a": False}


# Fault plans: the life of two jobs under a limit, with an error at each of its writes in turn.


def play(fault: Fault | None) -> SpendNamespace:
    """Start two of three jobs, run and delete one, and raise the limit; a killed operator is
    replaced by one that knows nothing but what is stored."""
    place = a_place(TWO_FIT, "a", "b", "c")
    place.fault = fault
    settle(place, wants=("a", "b", "c"))
    place.job("a", workers=1, usd="1", phase="Running", meta={"finalizers": HELD})
    settle(place, wants=("b", "c"))
    place.delete("a")
    settle(place, wants=("b", "c"))
    assert Decimal(place.state()["deletedUsd"]) == 1, "each dollar counts, and once"
    place.get("team", "spendlimits")["spec"]["limitUsd"] = "50"
    place.touch("team", "spendlimits")
    settle(place, wants=("b", "c"))
    place.delete("team", "spendlimits")
    settle(place)
    return place


def settle(place: SpendNamespace, wants: tuple[str, ...] = ()) -> None:
    operator = place.operator()
    for _ in range(8):
        place.see(operator)
        for name in wants:
            operator.asks(name)
        try:
            asyncio.run(operator.keeper.keep(NAMESPACE))
        except KilledError:
            operator = place.operator()
        except KubeError:
            continue
        else:
            place.clock += 60
            for uid, is_granted in operator.said().items():
                kept = place.get(uid[4:])["metadata"].get("finalizers") if is_granted else HELD
                assert kept == HELD, f"{uid} may start, and its spending is not protected"


def ends(place: SpendNamespace) -> dict[str, object]:
    return {name: place.get(name)["metadata"].get("finalizers", []) for name in ("b", "c")} | {
        "a": place.has("a")
    }


def test_an_undisturbed_life_ends_with_everybody_released() -> None:
    place = play(None)
    assert ends(place) == {"a": False, "b": [], "c": []}


NUM_WRITES = len(play(None).writes)


@pytest.mark.parametrize("error", [KilledError("killed"), KubeError("no answer")])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_disturbed_write_changes_nothing_in_the_end(error: KubeError, when: Disturbance) -> None:
    expected = play(None)
    for nth in range(1, NUM_WRITES + 1):
        place = play(Fault(nth, when, error))
        assert ends(place) == ends(expected), f"write {nth}"
