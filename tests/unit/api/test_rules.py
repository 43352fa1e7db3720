import re
from collections.abc import Iterator

import pytest
from hypothesis import given

from spotrun.api import load
from spotrun.api.crd import KINDS, openapi
from spotrun.api.model import Model
from spotrun.api.schemas.structural import JsonSchema
from tests.support.api.broken_rules import INVALID
from tests.support.api.limit_cases import GOOD_LIMITS
from tests.support.api.manifest_cases import VALID, Case, Manifest, job, pool, refusal
from tests.support.api.random_manifests import manifests
from tests.support.api.search_cases import GOOD_SEARCHES

GOOD = VALID | GOOD_SEARCHES | GOOD_LIMITS


@pytest.mark.parametrize("manifest", GOOD.values(), ids=GOOD.keys())
def test_good_manifests_are_read_and_written_back(manifest: Manifest) -> None:
    read = load(manifest)
    assert load(read.manifest()) == read


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.name)
def test_a_change_that_breaks_a_rule_is_refused_in_words(case: Case) -> None:
    load(case.base)
    assert case.message in refusal(case.manifest)


@given(manifests())
def test_what_is_read_is_written_back_and_what_is_refused_says_where(manifest: Manifest) -> None:
    if said := refusal(manifest):
        assert all(re.match(r'(unknown field ")?spec[^ ]*: \S', line) for line in said.splitlines())
    else:
        assert load(manifest).manifest() == manifest


def _models(model: type[Model] = Model) -> Iterator[type[Model]]:
    yield model
    for below in model.__subclasses__():
        yield from _models(below)


def _messages(schema: JsonSchema) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for below in ("items", "additionalProperties"):
        if below in schema:
            yield from _messages(schema[below])
    for name, field in schema.get("properties", {}).items():
        if name != "status":
            yield from _messages(field)


def _messages_of_both_sides() -> list[str]:
    said = {text for kind in KINDS.values() for text in _messages(openapi(kind.model))}
    server_only = {r.message for m in _models() for r in m.rules if r.holds is None}
    return sorted(said - server_only)


@pytest.mark.parametrize("message", _messages_of_both_sides())
def test_every_rule_and_every_form_has_a_case(message: str) -> None:
    assert any(case.message in message for case in INVALID)


def test_there_are_enough_refusals() -> None:
    assert len(INVALID) >= 40
    assert len({case.name for case in INVALID}) == len(INVALID)


def test_several_broken_rules_are_all_named() -> None:
    broken = job({"workers.min": 3, "workers.perReplica": 2, "priority": "high", "bugdet": {}})
    priority, workers, misspelt = refusal(broken).splitlines()
    assert priority == "spec.priority: must be of type integer"
    assert workers.startswith("spec.workers: min must not be above max: raise max")
    assert "; min, max and sizes must be multiples of perReplica" in workers
    assert misspelt == 'unknown field "spec.bugdet": did you mean budget?'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kind": "Pod"},
            "kind is 'Pod'; spotrun reads TrainingJob, CapacityPool, TuningJob and SpendLimit",
        ),
        ({"apiVersion": "v1"}, "apiVersion is 'v1'; spotrun reads spotrun.dev/v1alpha1"),
        (
            {"extra": 1},
            'unknown field "extra": known fields are apiVersion, kind, metadata, spec, status',
        ),
    ],
)
def test_other_manifests_are_refused(change: Manifest, message: str) -> None:
    assert refusal({**pool(), **change}) == message
