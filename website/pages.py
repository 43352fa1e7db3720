"""Text of pages: links that leave docs/, options of commands, and what a page would fetch. Pure."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath

from spotrun.cli.kubectl import VERBS

_CODE = re.compile(r"(^```.*?^```$|^(?: {4}|\t).*?$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\()([^)\s]+)(?=[)\s])")
_HAS_SCHEME = re.compile(r"[a-z]+:|//")
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*?\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon))"""
    r"""[^>]*?\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
)


def with_links_to(repository: str | None, root: Path, page: str, markdown: str) -> str:
    """Return a page of docs/ whose links to folders, and out of docs/, lead into the repository.

    A page is named as `adr/0001.md`. Without a repository, and in code, nothing is changed.
    """
    if repository is None:
        return markdown

    def rewritten(found: re.Match[str]) -> str:
        path, mark, anchor = found[2].partition("#")
        inside = normpath(PurePosixPath("docs", page).parent / path)
        is_folder = (root / inside).is_dir()
        is_page = inside.startswith("docs/") and not is_folder
        if is_page or not path or inside.startswith("..") or _HAS_SCHEME.match(path):
            return found[0]
        kind = "tree" if is_folder else "blob"
        return f"{found[1]}{repository}/{kind}/main/{inside}{mark}{anchor}"

    parts = _CODE.split(markdown)
    return "".join(
        part if index % 2 else _LINK.sub(rewritten, part) for index, part in enumerate(parts)
    )


def repository_of(project: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return the address of the repository, from `[project]`; None where the project names none."""
    found = re.match(r"https://[^/]+/[^/]+/[^/]+", project.get("urls", {}).get("Documentation", ""))
    return found[0] if found else None


def fetched_elsewhere(html: str) -> list[str]:
    """Return what a browser would fetch from other hosts in order to show a page."""
    return [one[0] or one[1] for one in _FETCHED.findall(html)]


def options_page() -> str:
    """Return the help of every verb of `kubectl tjob` as a page."""
    parts = [
        "# Options of each command",
        "The help of each verb. [The command line](command-line.md) has examples.",
    ]
    for name, verb in VERBS.items():
        parser = argparse.ArgumentParser(
            prog=f"kubectl tjob {name}", formatter_class=argparse.RawDescriptionHelpFormatter
        )
        verb.describe(parser)
        parts.append(f"## {name}\n\n{verb.text.capitalize()}.")
        parts.append(f"```text\n{parser.format_help().rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
