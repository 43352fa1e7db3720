import copy
import json
import re
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from spotrun.api import names
from spotrun.api.names import Choice, Name

NAMES = [
    pytest.param(value, id=key) for key, value in vars(names).items() if isinstance(value, Name)
]
CHOICES = [
    pytest.param(member, id=f"{kind.__name__}.{member.name}")
    for kind in Choice.__subclasses__()
    for member in kind
]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_plain_text_with_a_purpose(name: Name) -> None:
    assert json.loads(json.dumps(name)) == name
    assert len(name.purpose) > 10


def test_no_name_stands_for_two_things() -> None:
    keys = [
        str(value)
        for key, value in vars(names).items()
        if isinstance(value, Name) and key.startswith(("LABEL_", "ANNOTATION_", "ENV_"))
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_names_can_be_copied_with_the_manifests_they_are_in(copied: Callable[[Name], Name]) -> None:
    name = copied(names.LABEL_JOB)
    assert (name, name.purpose) == (names.LABEL_JOB, names.LABEL_JOB.purpose)


@pytest.mark.parametrize("member", CHOICES)
def test_every_choice_says_what_it_means(member: Choice) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]*|", member.value)
    assert len(member.purpose) > 2


def test_a_choice_is_written_as_its_value() -> None:
    class Holder(BaseModel):
        phase: names.Phase

    assert Holder(phase=names.Phase.RUNNING).model_dump_json() == '{"phase":"Running"}'
