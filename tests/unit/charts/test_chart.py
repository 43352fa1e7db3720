"""The chart, as far as it can be judged without Helm: its values, its schema and its documents."""

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import reference
from charts.manifests import CHART, MANIFESTS
from spotrun.api import load
from spotrun.runtime.options import Options, variable

ROOT = CHART.parents[1]
DEFINITION: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())

OF_PARENTS = {"enabled", "global"}
"""The values that the schema accepts so that the chart may be a part of others."""

OPEN = ("resources.", "page.resources.", "affinity.")
"""The values of which the schema knows more than has a default."""


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema, or the definition that it refers to."""
    reference = schema.get("$ref")
    return SCHEMA["definitions"][reference.rpartition("/")[2]] if reference else schema


def paths_of_schema(schema: dict[str, Any], path: str = "") -> set[str]:
    """Every value that the schema knows by name."""
    found: set[str] = set()
    for name, field in resolved(schema).get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        found |= paths_of_schema(field, here) or {here}
    return found


def paths_of_values(tree: dict[str, Any], known: set[str], path: str = "") -> set[str]:
    """Every value there is; what the schema knows as one is one."""
    found: set[str] = set()
    for name, value in tree.items():
        here = f"{path}.{name}".removeprefix(".")
        is_one = here in known or not isinstance(value, dict)
        found |= {here} if is_one else paths_of_values(value, known, here)
    return found


def test_the_schema_knows_the_values_and_no_others() -> None:
    known = paths_of_schema(SCHEMA) - OF_PARENTS
    optional = {path for path in known if path.startswith(OPEN)}
    optional |= {path for path in known if path.startswith("tls.certManager.issuerRef.")}
    whole = {"resources", "page.resources", "affinity", "tls.certManager.issuerRef", "global"}

    assert paths_of_values(VALUES, known | whole) - whole == known - optional


def objects(schema: dict[str, Any], path: str = "values") -> list[tuple[str, dict[str, Any]]]:
    """Every object of the schema that names its fields."""
    here = resolved(schema)
    found = [(path, here)] if "properties" in here else []
    for name, field in here.get("properties", {}).items():
        found += objects(field, f"{path}.{name}")
    return found + (objects(here["items"], f"{path}[]") if "items" in here else [])


def test_a_misspelt_value_is_refused_everywhere() -> None:
    lax = [path for path, one in objects(SCHEMA) if one.get("additionalProperties") is not False]

    assert lax == []


def test_every_value_is_described() -> None:
    described = {value.path for value in reference.values()}
    leaves = paths_of_values(VALUES, described)

    assert leaves - described == set()


@pytest.mark.parametrize("name", ["charts/spotrun/README.md", "docs/configuration.md"])
def test_documents_tell_the_values_and_flags_there_are(name: str) -> None:
    # If this fails run `python -m charts`.
    assert (ROOT / name).read_text() == reference.rendered(ROOT)[name]


def test_the_reference_shows_what_values_say() -> None:
    rows = reference.values_table()

    assert "| `log.format` | `json` | `text` for people, `json` for machines. |" in rows
    assert any(row.startswith("| `pools` |  | CapacityPools to create: each has") for row in rows)


def test_the_chart_is_of_this_version() -> None:
    assert DEFINITION["appVersion"] == version("spotrun")


def test_defaults_are_those_of_the_flags() -> None:
    options = Options()

    assert (VALUES["workers"], VALUES["leaseSeconds"]) == (options.workers, options.lease_seconds)
    assert (VALUES["restricted"], VALUES["log"]["level"]) == (options.restricted, options.log_level)


def test_only_variables_that_the_operator_reads_are_set() -> None:
    known = {variable(name) for name in Options.__dataclass_fields__}
    text = (CHART / "templates/deployment.yaml").read_text()

    assert set(re.findall(r"SPOTRUN_\w+", text)) <= known


def test_the_definitions_that_the_hub_shows_exist() -> None:
    shown = yaml.safe_load(DEFINITION["annotations"]["artifacthub.io/crds"])

    assert {f"spotrun.dev_{one['name'].partition('.')[0]}.yaml" for one in shown} == {
        path.name for path in (CHART / "files/crds").iterdir()
    }


def test_the_examples_that_the_hub_shows_are_valid() -> None:
    for manifest in yaml.safe_load(DEFINITION["annotations"]["artifacthub.io/crdsExamples"]):
        load(manifest)


def test_the_kustomization_has_all_that_belongs_together() -> None:
    kustomization = yaml.safe_load((ROOT / "kustomization.yaml").read_text())
    definitions = {f"crds/{path.name}" for path in (ROOT / "crds").iterdir()}
    manifests = {f"manifests/{name}" for name in MANIFESTS} - {"manifests/rbac-namespaced.yaml"}

    assert set(kustomization["resources"]) == definitions | manifests


def test_every_manifest_is_made_from_the_chart() -> None:
    assert {path.name for path in (ROOT / "manifests").iterdir()} == set(MANIFESTS)


def test_every_file_of_values_for_tests_says_what_it_is_for() -> None:
    files = sorted((CHART / "ci").iterdir())

    assert all(re.fullmatch(r"[a-z]+-values\.yaml", path.name) for path in files)
    assert all(_first_line(path).startswith("# ") for path in files)


def _first_line(path: Path) -> str:
    return path.read_text().partition("\n")[0]
