"""A report in Python: shown in a notebook, or written to a file."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from typing_extensions import override

from spotrun.cli.report import content
from spotrun.cli.report.writing import as_fragment, as_html, as_json, as_markdown

_BY_SUFFIX = {".html": as_html, ".md": as_markdown, ".json": as_json}


@dataclass(frozen=True)
class Report:
    """A whole report on a job; `content` has its sections and moments."""

    content: content.Report

    def html(self) -> str:
        """Return one HTML file that needs no other."""
        return as_html(self.content)

    def markdown(self) -> str:
        """Return it as Markdown."""
        return as_markdown(self.content)

    def json(self) -> str:
        """Return it as JSON."""
        return as_json(self.content)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it to a file, as its suffix says: .html, .md or .json."""
        file = Path(path)
        if file.suffix not in _BY_SUFFIX:
            raise ValueError(f"{file}: name it {', '.join(f'*{one}' for one in _BY_SUFFIX)}")
        file.write_text(_BY_SUFFIX[file.suffix](self.content), encoding="utf-8")
        return file

    @override
    def __repr__(self) -> str:
        return f"<Report on {self.content.title}: {self.content.state}>"

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return as_fragment(self.content)
