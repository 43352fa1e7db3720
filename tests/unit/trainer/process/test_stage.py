import pytest

from spotrun_trainer.process.stage import Stage, stage_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        ('{"name": "a", "index": 1, "untilStep": 9}', Stage("a", 1, 9)),
        ('{"name": "a", "index": 0, "untilStep": null}', Stage("a", 0, None)),
    ],
)
def test_a_process_reads_its_stage(text: str | None, expected: Stage | None) -> None:
    assert stage_of({} if text is None else {"SPOTRUN_STAGE": text}) == expected


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"name": "a", "untilStep": "x"}', "short"])
def test_what_is_no_stage_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="SPOTRUN_STAGE must be a JSON object such as"):
        stage_of({"SPOTRUN_STAGE": text})
