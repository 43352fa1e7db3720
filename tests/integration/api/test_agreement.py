from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.field_types.amounts import Amount, PositiveAmount, Quantity, Ratio
from spotrun.api.field_types.bounded import DnsLabel, DnsName, LabelValue
from spotrun.api.field_types.text_values import (
    AutoOrDuration,
    Duration,
    PositiveDuration,
    Text,
    Time,
)
from spotrun.api.spec.checkpoint import ObjectStoreUri
from spotrun.api.spec.schedule import ClockTime, Days, EndTime
from tests.integration.api.conftest import Server
from tests.support.api.manifest_cases import CONTAINERS, Manifest, changed, job, refusal
from tests.support.api.random_manifests import manifests

# Every example asks a real server, which takes longer than hypothesis likes.
REMOTE = settings(max_examples=400, deadline=None)


def test_the_model_and_the_server_accept_the_same(server: Server) -> None:
    verdicts: Counter[bool] = Counter()

    @REMOTE
    @given(manifests())
    def agree(manifest: Manifest) -> None:
        ours, theirs = refusal(manifest), server.try_to_create(manifest)
        verdicts[theirs.accepted] += 1
        assert theirs.accepted == (not ours), f"models: {ours or 'fine'}; server: {theirs.message}"

    agree()
    # Neither verdict is rare, or the agreement would say little.
    assert min(verdicts[True], verdicts[False]) >= 50, verdicts


WINDOWS = [{"from": "00:01", "to": "00:02"}]
SCHEDULE = job({"schedule.windows": WINDOWS, "checkpoint.uri": "s3://bucket"})
VOLUME = job({"checkpoint.volume.emptyDir": {}})
PLACES: dict[type[Text], tuple[Manifest, str]] = {
    Duration: (job(), "finished.deleteAfter"),
    PositiveDuration: (job(), "deadline.finishWithin"),
    AutoOrDuration: (job(), "failures.hangAfter"),
    Amount: (job(), "scaling.hourWorthUsd"),
    PositiveAmount: (job(), "budget.maxUsdPerHour"),
    Ratio: (job(), "scaling.minEfficiency"),
    Quantity: (VOLUME, "checkpoint.volume.emptyDir.sizeLimit"),
    Time: (job(), "deadline.finishBefore"),
    Days: (SCHEDULE, "schedule.windows.0.days"),
    ClockTime: (SCHEDULE, "schedule.windows.0.from"),
    EndTime: (SCHEDULE, "schedule.windows.0.to"),
    ObjectStoreUri: (SCHEDULE, "checkpoint.uri"),
    DnsLabel: (job(), f"{CONTAINERS}.0.name"),
    DnsName: (job(), "checkpoint.volume.persistentVolumeClaim.claimName"),
    LabelValue: (job(), "placement.poolSelector.matchLabels"),
}


def _texts(kind: type[Text]) -> st.SearchStrategy[str]:
    """Texts of the form, and such with a character more, less or another."""
    good = st.from_regex(rf"\A(?:{kind.pattern})\Z").filter(lambda text: len(text) < 100)
    odd = st.sampled_from([*"0159.-+:/ amsMGiZT%", "\n", "\u0661", "\u00e9", ""])
    spoilt = st.builds(
        lambda text, i, j, c: text[: min(i, j)] + c + text[j:],
        good,
        st.integers(0, 20),
        st.integers(0, 20),
        odd,
    )
    return st.one_of(good, spoilt)


def _wrapped(kind: type[Text], text: str) -> object:
    if kind is Days:
        return [text]
    return {"a": text} if kind is LabelValue else text


@pytest.mark.parametrize("kind", PLACES, ids=lambda kind: kind.__name__)
def test_texts_have_one_form_on_both_sides(server: Server, kind: type[Text]) -> None:
    base, path = PLACES[kind]

    @settings(REMOTE, max_examples=60)
    @given(_texts(kind))
    def agree(text: str) -> None:
        manifest = changed(base, {path: _wrapped(kind, text)})
        ours, theirs = refusal(manifest), server.try_to_create(manifest)
        assert theirs.accepted == (not ours), f"{text!r}: {ours or 'fine'}; {theirs.message}"

    agree()
