import pytest

from spotrun.api.names import Reason
from spotrun.policies.failures.counting import Failure, with_last_failure
from spotrun.state.stored.failures import Restarts
from spotrun.wire import WRONG_DEVICE

BEFORE = Restarts(failures=1, blamed=("a",))


@pytest.mark.parametrize(
    ("node", "follows", "message", "blamed"),
    [
        ("b", False, "it failed", ("a", "b")),
        ("b", True, "it failed", ("a",)),  # it only noticed that another one had ended
        (None, False, "it failed", ("a",)),
        ("b", False, f"rank 1: {WRONG_DEVICE}: GPU-1 of b", ("a", "b", "b")),  # avoided at once
        ("b", True, f"rank 1: {WRONG_DEVICE}: GPU-1 of b", ("a",)),
    ],
)
def test_whose_process_failed_first_is_blamed(
    node: str | None, follows: bool, message: str, blamed: tuple[str, ...]
) -> None:
    failure = Failure(Reason.EXIT_CODE, 3, message, node, follows)
    assert with_last_failure(BEFORE, failure).blamed == blamed


@pytest.mark.parametrize(
    ("code", "stored"), [(None, None), (-1, None), (0, 0), (3, 3), (255, 255), (256, None)]
)
def test_only_what_a_process_can_end_with_is_stored_as_its_exit_code(
    code: int | None, stored: int | None
) -> None:
    reported = with_last_failure(BEFORE, Failure(Reason.EXIT_CODE, code, "it failed"))
    assert reported.last_exit_code == stored


def test_a_long_message_is_cut_and_the_count_stays() -> None:
    reported = with_last_failure(BEFORE, Failure(Reason.EXIT_CODE, 1, "x" * 100_000))
    assert 0 < len(reported.last_message or "") < 10_000
    assert reported.failures == BEFORE.failures
