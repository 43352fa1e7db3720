import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster.process.expansion import expand

VARIABLES = {"A": "a", "B": "b", "REF": "$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "a"),
        ("$(A)-$(A)", "a-a"),
        ("__$(B)__", "__b__"),
        ("$(A)_$(B)", "a_b"),
        ("$$(B)_$(A)", "$(B)_a"),
        ("f-$$A", "f-$A"),
        ("\\$(A)", "\\a"),
        ("$(A$(B))", "$(A$(B))"),
        ("$(A$(B)", "$(A$(B)"),
        ("$(REF)", "$(A)"),
        ("x$(EMPTY)y", "xy"),
        ("x$(Awhoops", "x$(Awhoops"),
        ("(A)", "(A)"),
        ("$?_$!", "$?_$!"),
        ("$A", "$A"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$$$$$(A)", "$$$(A)"),
        ("$$$$$$$(UNKNOWN)", "$$$$(UNKNOWN)"),
        ("$$$$$$$(A)", "$$$a"),
        ("${A}", "${A}"),
        ("$(B)_$(A", "b_$(A"),
        ("$(B)_$(", "b_$("),
        ("$(A)$", "a$"),
        ("--$($($($--", "--$($($($--"),
        ("$(foo$$var)", "$(foo$$var)"),
        ("\n", "\n"),
        ("$($$", "$($"),
        ("$\n$(A)", "$\na"),
        ("", ""),
    ],
)
def test_references_resolve_as_in_kubernetes(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


@given(st.text())
def test_escaping_every_dollar_keeps_the_text(text: str) -> None:
    assert expand(text.replace("$", "$$"), VARIABLES) == text


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_a_dollar_is_kept(text: str) -> None:
    assert expand(text, VARIABLES) == text
