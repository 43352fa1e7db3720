"""docs/security.md tells of every attack that is tried, and of no other."""

from pathlib import Path

from tests.support.docs.attack_table import DOCUMENT, FOLDER, ROOT, TOPICS, written


def test_the_document_tells_what_was_tried() -> None:
    document = DOCUMENT.read_text()
    assert written(document) == document, (
        "run `.venv/bin/python -m tests.support.docs.attack_table`"
    )


def test_no_file_of_attacks_is_left_out() -> None:
    files = {file.stem for file in (ROOT / FOLDER).glob("test_*.py")}
    assert files - {Path(__file__).stem} == set(TOPICS)
