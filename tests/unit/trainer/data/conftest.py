"""Sources that are closed when their test ends."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from spotrun_trainer.data.source import Source
from tests.unit.trainer.data.helpers import Opened, open_for_tests, workers


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens sources, and sees to it that they are closed."""
    with contextlib.ExitStack() as sources:

        def opened(dataset: Any, num_workers: int = 1, **more: Any) -> Source:
            source = open_for_tests(dataset, num_workers, **more)
            sources.callback(source.close)
            return source

        yield opened
    assert workers() == []
