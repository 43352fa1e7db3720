import pytest

from spotrun_trainer.checkpoint.format.names import Name, names_among


def test_a_name_is_read_as_it_is_written() -> None:
    assert Name(1200, 3) == Name.parse("step-1200.g3")
    assert str(Name(1200, 3)) == "step-1200.g3"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step-1",
        "step-01.g1",
        "step--1.g1",
        "step-1.g1/../../x",
        "../../x",
        "step-1.g1\n",
        "step-\N{ARABIC-INDIC DIGIT ONE}.g1",
        "step-99999999999999999.g1",
        "STEP-1.g1",
    ],
)
def test_what_could_be_another_path_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"a checkpoint is called step-N\.gG, not"):
        Name.parse(text)


def test_the_newest_has_most_steps_and_then_the_latest_world() -> None:
    listed = ["step-9.g2", "step-10.g1", "step-9.g10", "notes.txt", "step-9.g2.old"]

    assert [Name(9, 2), Name(9, 10), Name(10, 1)] == names_among(listed)
