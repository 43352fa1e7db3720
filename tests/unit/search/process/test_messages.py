import math
from dataclasses import replace

import pytest

from spotrun.search import (
    Bayesian,
    Direction,
    Outcome,
    Question,
    Report,
    Sampler,
    Suggestion,
    Trial,
)
from spotrun.search.process.messages import (
    read_answer,
    read_question,
    write_answer,
    write_question,
)
from tests.support.search.spaces import TRAINING, a_history

HISTORY = (
    *a_history(3),
    Trial(3, {"lr": 0.1}, Outcome.PRUNED, None, (Report(100, math.inf),), None),
    Trial(4, {"lr": 0.1, "layers": 2}, Outcome.RUNNING),
)
QUESTION = Question(
    TRAINING, Bayesian(3, Sampler.GP, 5), Direction.MAXIMIZE, 5, HISTORY, budget_left=0.25
)


def test_a_question_is_read_as_it_was_written() -> None:
    # Of reports the newest is enough.
    expected = tuple(replace(one, reports=one.reports[-1:]) for one in HISTORY)
    assert read_question(write_question(QUESTION)) == replace(QUESTION, history=expected)


def test_an_answer_is_read_as_it_was_written() -> None:
    answer = Suggestion({"lr": 0.1, "layers": 2, "optimizer": "sgd", "warm": True}, why="so")
    assert read_answer(write_answer(answer)) == answer
    with pytest.raises(ValueError, match=r"^choose TPE$"):
        read_answer(write_answer(ValueError("choose TPE")))
