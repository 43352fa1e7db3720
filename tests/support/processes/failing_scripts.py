"""Scripts that fail as people's do, each with the first cause that its job is to name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "scripts" / "failing"
_CAUSE = re.compile(r"^First cause: (.*?)\n(?:\n|\"\"\")", re.DOTALL | re.MULTILINE)
_PROCESSES = re.compile(r"^Processes: (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class FailingScript:
    """A script, and what is expected of it."""

    file: Path
    cause: str  # "..." is anything, "L" in a place a line, "rank ?" any rank
    processes: int  # of each worker

    @property
    def name(self) -> str:
        return self.file.stem

    def copy_to(self, folder: Path) -> Path:
        """Copy it as a Python file: one with a syntax error is none here."""
        copy = folder / f"{self.name}.py"
        copy.write_text(self.file.read_text())
        return copy

    def is_named_in(self, message: str) -> bool:
        """Whether a message says the first cause."""
        pattern = re.escape(self.cause)
        for placeholder, meaning in (
            (r"\ \.\.\.\ ", ".*"),
            (r"\.\.\.", ".*"),
            (r"rank\ \?", r"rank \d+"),
        ):
            pattern = pattern.replace(placeholder, meaning)
        pattern = re.sub(r":L(?=\\ |$)", r":\\d+", pattern).replace(r"line\ L", r"line\ \d+")
        return re.search(pattern, message) is not None


def failing_scripts() -> Iterator[FailingScript]:
    """Yield all of them."""
    for file in sorted(FOLDER.glob("*/*.*")):
        text = file.read_text()
        cause, processes = _CAUSE.search(text), _PROCESSES.search(text)
        assert cause is not None, f"{file} does not say its first cause"
        said = " ".join(cause[1].split())
        yield FailingScript(file, said, int(processes[1]) if processes else 1)
