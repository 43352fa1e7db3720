import pytest

from spotrun_trainer.kept.position import Position


@pytest.mark.parametrize(
    ("done_by", "processes", "goes_on_with", "skipped"),
    [(3, 2, 2, 3), (3, 2, 1, 6), (3, 2, 3, 2), (3, 2, 4, 1), (0, 2, 3, 0), (1, 3, 4, 0)],
)
def test_the_same_samples_are_skipped_at_another_size(
    done_by: int, processes: int, goes_on_with: int, skipped: int
) -> None:
    position = Position()
    for _ in range(done_by):
        position.advance(processes)
    assert position.skipped(goes_on_with) == skipped


def test_what_is_trained_on_again_is_counted_again() -> None:
    position = Position(batches=7)
    position.resume(4)
    position.advance(4)
    assert position.batches == 8


def test_an_epoch_that_is_done_leaves_no_batches() -> None:
    position = Position(1, 9)
    position.end_epoch()
    assert position == Position(2, 0)


def test_it_is_kept_as_numbers() -> None:
    assert Position.from_json(Position(2, 5).to_json()) == Position(2, 5)
    assert Position.from_json({}) == Position()
