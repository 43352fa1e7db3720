"""`python -m spotrun.search.process`: read a question from stdin, write the answer to stdout."""

import sys

from spotrun.search.process.messages import read_question, write_answer


def main() -> None:
    """Answer one question; an error that users can fix is an answer as well."""
    question = read_question(sys.stdin.buffer.read())
    try:
        from spotrun.search.process.optuna_search import ask  # noqa: PLC0415 - it may be missing

        answer = write_answer(ask(question))
    except ModuleNotFoundError as error:
        answer = write_answer(
            ValueError(
                f"bayesian search needs Optuna in the operator's image ({error}): install "
                "spotrun[operator,tuning], or search with sobol or random"
            )
        )
    except ValueError as error:
        answer = write_answer(error)
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main()
