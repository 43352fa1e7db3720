"""Pages of the site: links out of docs/ lead into the repository, nothing is fetched elsewhere."""

import tomllib
from pathlib import Path

import pytest

from spotrun.cli.kubectl import VERBS
from website.pages import fetched_elsewhere, options_page, repository_of, with_links_to

ROOT = Path(__file__).parents[3]
FORGE = "https://forge.example/team/project"


@pytest.mark.parametrize(
    ("page", "written", "expected"),
    [
        pytest.param(
            "a.md",
            "[x](../examples/minimal.yaml)",
            f"[x]({FORGE}/blob/main/examples/minimal.yaml)",
            id="a file outside",
        ),
        pytest.param("a.md", "[x](../bench)", f"[x]({FORGE}/tree/main/bench)", id="a folder"),
        pytest.param(
            "a.md", "[x](runbooks)", f"[x]({FORGE}/tree/main/docs/runbooks)", id="a folder inside"
        ),
        pytest.param(
            "adr/0001.md",
            "[x](../../CONTRIBUTING.md#test)",
            f"[x]({FORGE}/blob/main/CONTRIBUTING.md#test)",
            id="from a folder, with an anchor",
        ),
        pytest.param("adr/0001.md", "[x](../page.md#top)", "[x](../page.md#top)", id="a page"),
        pytest.param("a.md", "[x](page.png)", "[x](page.png)", id="a picture"),
        pytest.param("a.md", "[x](#below)", "[x](#below)", id="an anchor"),
        pytest.param("a.md", "[x](https://x.example/..)", "[x](https://x.example/..)", id="away"),
        pytest.param("a.md", "[x](../../other)", "[x](../../other)", id="out of the repository"),
        pytest.param("a.md", "`[x](../bench)`", "`[x](../bench)`", id="code"),
        pytest.param(
            "a.md", "```\n[x](../bench)\n```", "```\n[x](../bench)\n```", id="a block of code"
        ),
    ],
)
def test_links_out_of_docs_lead_into_the_repository(page: str, written: str, expected: str) -> None:
    assert with_links_to(FORGE, ROOT, page, f"See\n{written}\n.") == f"See\n{expected}\n."


def test_links_stay_as_they_are_where_the_project_names_no_repository() -> None:
    assert with_links_to(None, ROOT, "a.md", "[x](../bench)") == "[x](../bench)"
    assert repository_of({}) is None


def test_the_project_names_its_repository() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert repository_of(project) == "https://github.com/spotrun/spotrun"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<script src="https://cdn.example/x.js">', ["https://cdn.example/x.js"]),
        ("<img alt=x src=//cdn.example/x.png>", ["//cdn.example/x.png"]),
        ('<link href="https://f.example/c" rel="stylesheet">', ["https://f.example/c"]),
        ('<link rel="preconnect" href="https://f.example">', ["https://f.example"]),
        ('<a href="https://elsewhere.example">', []),
        ('<script src="assets/x.js"></script><link rel="icon" href="i.png">', []),
        ('<link rel="canonical" href="https://here.example/">', []),
    ],
)
def test_what_a_page_would_fetch_from_other_hosts_is_found(html: str, expected: list[str]) -> None:
    assert fetched_elsewhere(html) == expected


def test_every_verb_has_its_options_on_a_page() -> None:
    page = options_page()

    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == [*VERBS]
    assert "--no-open" in page
