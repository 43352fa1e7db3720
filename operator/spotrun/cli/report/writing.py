"""A report as Markdown, as JSON, and as one HTML file that needs no other. Pure."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from html import escape

import yaml

from spotrun.cli.report.content import Report, Section
from spotrun.cli.report.parallel import parallel
from spotrun.cli.report.timeline import timeline

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2rem auto;padding:0 1rem;
color:#1c1e21;background:#fff}h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse}td{padding:.2rem 1.2rem .2rem 0;vertical-align:top}
td:first-child{color:#555}pre{background:#f4f4f4;padding:1rem;overflow:auto}
svg{width:100%;height:auto}svg text{fill:#555}
@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#15171a}pre{background:#22252a}
td:first-child,svg text{color:#aaa;fill:#aaa}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_PICTURE = "The line is the number of workers of the world; red are losses, blue are decisions."
_COORDINATES = (
    "Each line is a trial; the five best are green, and the best one of all is the thickest. Point "
    "at a line to see its number."
)
_SOURCE = (
    "This comes from Events of the job, which a cluster keeps for an hour by default, and from its "
    "last ten decisions."
)
_REPRODUCE = (
    "The object as it was; `kubectl apply -f` creates it again. Values of variables that are named "
    "like secrets are left out."
)


def as_json(report: Report) -> str:
    """Return the report as one JSON object."""
    return json.dumps(asdict(report), indent=2, default=str)


def as_markdown(report: Report) -> str:
    """Return the report as Markdown."""
    parts = [f"# {report.kind} {_plain(report.title)}: {report.state}", _made(report)]
    for section in report.sections:
        parts += [f"## {section.title}", *_section(section)]
    if report.moments:
        rows = [(f"{one.at:%H:%M:%S}", one.what, one.text) for one in report.moments]
        parts += ["## What happened", _markdown_table(tuple(rows)), _SOURCE]
    manifest = _yaml(report).rstrip()
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", manifest))])
    parts += ["## How to reproduce it", _REPRODUCE, f"{fence}yaml\n{manifest}\n{fence}"]
    return "\n\n".join(parts) + "\n"


def as_html(report: Report) -> str:
    """Return the report as one HTML file: no script, and nothing from elsewhere."""
    body = [f"<h1>{_title(report)}</h1>", f"<p>{_made(report)}</p>", *_html_parts(report)]
    code = f"<pre>{escape(_yaml(report))}</pre>"
    body += ["<h2>How to reproduce it</h2>", f"<p>{escape(_REPRODUCE)}</p>", code]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def as_fragment(report: Report) -> str:
    """Return the report, but for its manifest, as a part of another page: without any style."""
    return f"<div><h3>{_title(report)}</h3>{''.join(_html_parts(report))}</div>"


def _title(report: Report) -> str:
    return f"{escape(report.title)}: {escape(report.state)}"


def _html_parts(report: Report) -> list[str]:
    body = []
    if report.coordinates is not None:
        body += [parallel(report.coordinates), f"<p>{_COORDINATES}</p>"]
    for section in report.sections:
        notes = "".join(f"<p>{escape(note)}</p>" for note in section.notes)
        body += [f"<h2>{escape(section.title)}</h2>", _html_table(section.rows), notes]
    if report.moments:
        rows = tuple((f"{one.at:%H:%M:%S}", one.what, one.text) for one in report.moments)
        picture = timeline(report.moments, report.made_at)
        body += [
            "<h2>What happened</h2>",
            picture,
            f"<p>{_PICTURE} {_SOURCE}</p>",
            _html_table(rows),
        ]
    return body


WRITERS: dict[str, Callable[[Report], str]] = {
    "html": as_html,
    "markdown": as_markdown,
    "json": as_json,
}


def _made(report: Report) -> str:
    return f"Written {report.made_at:%Y-%m-%d %H:%M:%S} UTC."


def _section(section: Section) -> list[str]:
    table = [_markdown_table(section.rows)] if section.rows else []
    return [*table, *map(_plain, section.notes)]


def _markdown_table(rows: tuple[tuple[str, ...], ...]) -> str:
    head = "| " + " | ".join(" " for _ in rows[0]) + " |"
    rule = "|" + "---|" * len(rows[0])
    lines = ["| " + " | ".join(map(_plain, row)) + " |" for row in rows]
    return "\n".join([head, rule, *lines])


def _html_table(rows: tuple[tuple[str, ...], ...]) -> str:
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>" if rows else ""


def _plain(text: str) -> str:
    """Keep a text on one line, and escape Markdown's own signs."""
    for sign in ("\\", "|", "<", "*", "_", "`", "["):
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def _yaml(report: Report) -> str:
    text: str = yaml.safe_dump(dict(report.manifest), sort_keys=False, allow_unicode=True)
    return text
