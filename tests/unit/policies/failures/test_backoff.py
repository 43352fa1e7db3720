import pytest

from spotrun.policies.failures.backoff import pause_after


@pytest.mark.parametrize(("failures", "seconds"), [(1, 10), (2, 20), (5, 160), (6, 300), (99, 300)])
def test_the_pause_doubles_up_to_five_minutes(failures: int, seconds: int) -> None:
    assert pause_after(failures).total_seconds() == seconds
