"""What runbooks have people type exists: fields, conditions and patches."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spotrun.api.capacitypool import CapacityPool
from spotrun.api.crd import openapi
from spotrun.api.names import ConditionType
from spotrun.api.trainingjob import TrainingJob

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs/runbooks").glob("*.md"))
SCHEMAS = {"trainingjob": openapi(TrainingJob), "capacitypool": openapi(CapacityPool)}

JSONPATH = re.compile(r"jsonpath='([^']+)'")
PATCH = re.compile(r"-p '([^']+)'")
CONDITION = re.compile(r'\[\?\(@\.type=="(\w+)"\)\]')

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def commands(page: Path, kind: str) -> list[str]:
    """The commands of a page that are about one of our kinds."""
    lines = re.findall(r"^ {4,}(kubectl .*)$", page.read_text(), re.MULTILINE)
    return [line for line in lines if re.search(rf"\b{kind}s? ", line)]


def exists(path: list[str], inside: dict[str, Any]) -> bool:
    """Whether a schema has a field, of a list any item's."""
    for name in path:
        inside = inside.get("items", inside).get("properties", {}).get(name)
        if inside is None:
            return False
    return True


def keys(patch: dict[str, Any]) -> list[list[str]]:
    """The path of each leaf."""
    return [
        [name, *rest]
        for name, value in patch.items()
        for rest in (keys(value) if isinstance(value, dict) else [[]])
    ]


@every_page
@pytest.mark.parametrize("kind", SCHEMAS)
def test_fields_that_are_shown_or_patched_exist(page: Path, kind: str) -> None:
    told = commands(page, kind)
    shown = [path for line in told for path in JSONPATH.findall(line)]
    fields = [re.findall(r"\{\.([\w.]+)", CONDITION.sub("", path)) for path in shown]
    paths = [field.split(".") for found in fields for field in found]
    paths += [
        path for line in told for text in PATCH.findall(line) for path in keys(json.loads(text))
    ]

    assert [path for path in paths if not exists(path, SCHEMAS[kind])] == []


@every_page
def test_conditions_that_are_asked_for_exist(page: Path) -> None:
    asked = set(CONDITION.findall(page.read_text()))

    assert asked <= {kind.value for kind in ConditionType}


def test_a_field_that_does_not_exist_is_found() -> None:
    jobs = SCHEMAS["trainingjob"]

    assert exists(["status", "cost", "usd"], jobs)
    assert not exists(["status", "cost", "euro"], jobs)
    assert keys({"spec": {"budget": {"maxCostUsd": "1"}, "suspend": True}}) == [
        ["spec", "budget", "maxCostUsd"],
        ["spec", "suspend"],
    ]
