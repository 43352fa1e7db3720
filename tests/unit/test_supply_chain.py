"""What the project says of its own security holds: links lead into the tree, tools are pinned."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
INSIGHTS = yaml.safe_load((ROOT / "SECURITY-INSIGHTS.yml").read_text())
RELEASE = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
OURS = re.compile(r"https://github\.com/spotrun/spotrun/(?:blob|tree)/main/([\w./-]*\w)")

SAYING = [ROOT / "SECURITY-INSIGHTS.yml", *sorted((ROOT / "charts/spotrun").rglob("*.yaml"))]


@pytest.mark.parametrize("file", SAYING, ids=lambda file: file.name)
def test_links_into_the_repository_lead_to_files_that_exist(file: Path) -> None:
    paths = OURS.findall(file.read_text())

    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_security_insights_say_what_their_schema_requires() -> None:
    # https://github.com/ossf/security-insights, spec/schema.cue of 2.2.0
    required = {
        "header": {"last-reviewed", "last-updated", "schema-version", "url"},
        "project": {"name", "administrators", "repositories", "vulnerability-reporting"},
        "repository": {
            "accepts-automated-change-request",
            "accepts-change-request",
            "core-team",
            "license",
            "security",
            "status",
            "url",
        },
    }

    missing = {part: keys - set(INSIGHTS[part]) for part, keys in required.items()}
    assert missing == {part: set() for part in required}
    for contact in (*INSIGHTS["project"]["administrators"], *INSIGHTS["repository"]["core-team"]):
        assert set(contact) >= {"name", "primary"}
    for tool in INSIGHTS["repository"]["security"]["tools"]:
        assert set(tool) >= {"name", "type", "rulesets", "integration", "results"}
        assert set(tool["integration"]) == {"adhoc", "ci", "release"}


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_releases_install_tools_of_fixed_versions_only() -> None:
    installed = [
        line.split("go install ")[1]
        for step in steps(RELEASE)
        for line in step.get("run", "").splitlines()
        if "go install " in line
    ]

    assert installed
    for tool in installed:
        name = tool.strip('"').removeprefix("$")
        assert re.search(r"@v\d+\.\d+\.\d+$", RELEASE["env"][name])


def test_only_what_writes_a_release_may_write() -> None:
    rights = {name: job["permissions"] for name, job in RELEASE["jobs"].items()}

    assert {name for name, right in rights.items() if right["contents"] == "write"} == {"draft"}
    assert {name for name, right in rights.items() if right.get("packages") == "write"} == {
        "images"
    }


@pytest.mark.parametrize("file", ["operator/Dockerfile", "trainer_image/Dockerfile"])
def test_base_images_can_be_given_by_digest(file: str) -> None:
    text = (ROOT / file).read_text()

    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}
