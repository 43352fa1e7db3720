"""Events of mkdocs: pages that are read on a forge as well become pages of a site.

Each warning here ends `make docs`, which builds with --strict.
"""

import logging
import os
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website.pages import fetched_elsewhere, options_page, repository_of, with_links_to

ROOT = Path(__file__).parents[1]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_LOG = logging.getLogger("mkdocs.hooks.spotrun")


def on_startup(**_: object) -> None:
    """Let help have the same width on every machine."""
    os.environ["COLUMNS"] = "100"


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    """Add the page of options, which is written by the parsers themselves."""
    files.append(File.generated(config, "options.md", content=options_page()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links that leave docs/ lead into the repository."""
    return with_links_to(repository_of(_PROJECT), ROOT, page.file.src_uri, markdown)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse pages that need another host to be shown."""
    for address in fetched_elsewhere(output):
        _LOG.warning("%s would be shown with %s", page.file.src_uri, address)
    return output
