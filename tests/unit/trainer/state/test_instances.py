"""Instances are found by their class, wherever they are kept."""

from typing import Any

from typing_extensions import override

from spotrun_trainer.state.instances import derived_from, instances_of


class Kind:
    pass


class Derived(Kind):
    pass


class Refusing(Kind):
    @override
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"isinstance() asked for {name}")


def test_those_of_derived_classes_are_found_and_no_others() -> None:
    plain, derived, refusing = Kind(), Derived(), Refusing()
    kept = {"list": [derived], "class": Derived, "another": object()}
    found = {id(one) for one in instances_of([Kind])}
    assert found == {id(plain), id(derived), id(refusing)}, kept
    assert list(derived_from(Kind)) == [Derived, Refusing]


def test_a_class_without_instances_has_none() -> None:
    assert instances_of([type("Unused", (), {})]) == []
    assert instances_of([]) == []
