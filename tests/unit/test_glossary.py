"""The glossary is true to the API: it names no field, label or kind that does not exist."""

import re
from pathlib import Path

import pytest

from spotrun.api import names
from spotrun.api.capacitypool import CapacityPool
from spotrun.api.crd import openapi
from spotrun.api.model import Model
from spotrun.api.names import Choice, ConditionType, Name, Reason
from spotrun.api.schemas.structural import JsonSchema
from spotrun.api.trainingjob import TrainingJob

DOCS = Path(__file__).parents[2] / "docs"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (DOCS / "glossary.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| word ")
]
WORDS = [row[0] for row in ROWS]
NAMES = {str(value) for value in vars(names).values() if isinstance(value, Name)}
FIELD = re.compile(r"`((?:status|spec)(?:\.\w+)+)`")


def has(model: type[Model], path: str) -> bool:
    schema: JsonSchema = openapi(model)
    for name in path.split("."):
        schema = schema.get("items", schema)
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return True


@pytest.mark.parametrize("row", ROWS, ids=WORDS)
def test_each_field_of_a_word_exists(row: list[str]) -> None:
    where = row[2]
    model = CapacityPool if "`CapacityPool`" in where else TrainingJob
    assert [path for path in FIELD.findall(where) if not has(model, path)] == []


@pytest.mark.parametrize(
    ("path", "exists"),
    [("status.world.members", True), ("status.world.seats", False), ("status.cost.usd.x", False)],
)
def test_a_field_that_does_not_exist_is_found(path: str, exists: bool) -> None:
    assert has(TrainingJob, path) == exists


@pytest.mark.parametrize("row", ROWS, ids=WORDS)
def test_each_label_condition_and_reason_exists(row: list[str]) -> None:
    where = row[2]
    labels = re.findall(r"(?:label|finalizer) `([^`]+)`", where)
    choices: list[tuple[str, type[Choice]]] = [("condition", ConditionType), ("reason", Reason)]
    stated = [
        (named, {one.value for one in kind})
        for word, kind in choices
        for named in re.findall(rf"{word} `([^`]+)`", where)
    ]
    assert [one for one in labels if one not in NAMES] == []
    assert [one for one, known in stated if one not in known] == []


@pytest.mark.parametrize("row", ROWS, ids=WORDS)
def test_a_word_is_explained_in_at_most_two_sentences_and_has_a_place(row: list[str]) -> None:
    word, meaning, where, _ = row
    assert word
    assert where
    assert meaning.endswith(".")
    assert len(re.findall(r"[.!?](?:\s|$)", meaning)) <= 2


def test_the_words_stand_in_the_order_of_the_alphabet() -> None:
    assert sorted(WORDS) == WORDS


def test_kubectl_explain_leads_to_the_glossary() -> None:
    status = openapi(TrainingJob)["properties"]["status"]
    described = (status["description"], status["properties"]["world"]["description"])
    assert all("docs/glossary.md" in text for text in described)
