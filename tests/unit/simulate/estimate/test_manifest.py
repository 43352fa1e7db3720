"""TrainingJobs from files: what is read as kubectl reads it, and what is refused."""

import json
from pathlib import Path

import pytest
import yaml

from spotrun.simulate.estimate.manifest import read

JOB = """\
apiVersion: spotrun.dev/v1alpha1
kind: TrainingJob
metadata: {name: gpt}
spec:
  workers: {template: {spec: {containers: [{name: trainer, image: "train:1"}]}}}
  deadline: {finishBefore: 2026-03-01T08:00:00Z}
"""
POOL = "apiVersion: spotrun.dev/v1alpha1\nkind: CapacityPool\nmetadata: {name: a}\nspec: {}\n"
EXAMPLES = [
    path
    for path in sorted((Path(__file__).parents[4] / "examples").glob("*.yaml"))
    if "kind: TrainingJob" in path.read_text()
]


def a_file(folder: Path, text: str) -> str:
    path = folder / "job.yaml"
    path.write_text(text)
    return str(path)


def test_the_job_is_found_among_other_objects(tmp_path: Path) -> None:
    assert read(a_file(tmp_path, f"{POOL}---\n{JOB}---\n")).metadata.name == "gpt"


def test_the_job_is_found_in_a_list(tmp_path: Path) -> None:
    indented = JOB.replace("\n", "\n  ")
    text = f"apiVersion: v1\nkind: List\nitems:\n- {indented}"

    assert read(a_file(tmp_path, text)).metadata.name == "gpt"


def test_a_time_is_a_text_as_for_kubectl(tmp_path: Path) -> None:
    deadline = read(a_file(tmp_path, JOB)).spec.deadline

    assert deadline is not None
    assert deadline.finish_before == "2026-03-01T08:00:00Z"


@pytest.mark.parametrize("argument", ["12:00:00", "1:30", "-1:30:00", "1:30.5", "=", "2026-03-01"])
def test_what_pyyaml_takes_for_something_else_is_a_text_as_for_kubectl(
    tmp_path: Path, argument: str
) -> None:
    text = JOB.replace('"train:1"', f'"train:1", args: [{argument}]')

    (container,) = read(a_file(tmp_path, text)).spec.workers.template.spec.containers

    assert container.manifest()["args"] == [argument]


def test_a_schedule_needs_no_quotes(tmp_path: Path) -> None:
    text = f"""{JOB}\
  checkpoint: {{volume: {{persistentVolumeClaim: {{claimName: checkpoints}}}}}}
  schedule: {{windows: [{{days: [Mon-Fri], from: 22:00, to: 24:00}}]}}
"""

    schedule = read(a_file(tmp_path, text)).spec.schedule

    assert schedule is not None
    assert [(one.from_, one.to) for one in schedule.windows] == [("22:00", "24:00")]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("-17", -17), ("1_000", 1000), ("0x1F", 31), ("0b101", 5), ("0777", 511)),
        *(("1.5", 1.5), (".5", 0.5), ("6.0e+3", 6000.0), ("-1_0.5", -10.5)),
        ("-.inf", float("-inf")),
    ],
)
def test_numbers_are_still_numbers(tmp_path: Path, text: str, number: float) -> None:
    manifest = JOB.replace("{name: gpt}", f"{{name: gpt, number: {text}}}")

    assert (read(a_file(tmp_path, manifest)).metadata.model_extra or {})["number"] == number


def test_json_may_be_indented_by_tabs(tmp_path: Path) -> None:
    document = yaml.safe_load(JOB.replace("2026-03-01T08:00:00Z", '"2026-03-01T08:00:00Z"'))
    text = f"\n{json.dumps(document, indent=chr(9))}\n"

    assert "\t" in text
    assert read(a_file(tmp_path, text)).metadata.name == "gpt"


def test_what_begins_like_json_may_be_yaml(tmp_path: Path) -> None:
    pool = "{apiVersion: spotrun.dev/v1alpha1, kind: CapacityPool, metadata: {name: a}, spec: {}}"

    assert read(a_file(tmp_path, f"{pool}\n---\n{JOB}")).metadata.name == "gpt"


def test_of_a_cost_only_what_was_spent_is_read(tmp_path: Path) -> None:
    cost = '{usd: "19.50", remainingUsd: "0.50", usdPerHour: 7}'

    status = read(a_file(tmp_path, f"{JOB}status: {{cost: {cost}}}\n")).status

    assert status is not None
    assert status.cost is not None
    assert status.cost.model_dump(exclude_none=True) == {"usd": "19.50"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_of_a_job_is_read(path: Path) -> None:
    assert read(str(path)).spec.workers.max >= 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must contain one TrainingJob, but contains none"),
        (POOL, "must contain one TrainingJob, but contains none"),
        ("just words", "must contain one TrainingJob, but contains none"),
        (f"{JOB}---\n{JOB}", "contains 2 of them (gpt, gpt)"),
        (
            "\n---\n".join(["{kind: TrainingJob, metadata: [gpt]}"] * 2),
            "contains 2 of them (None, None)",
        ),
        (JOB + "status: {cost: {usd: 19.5}}\n", "status.cost.usd: must be of type string"),
        (JOB + 'status: {cost: {usd: "-5"}}\n', "status.cost.usd: must be a decimal number"),
        (JOB + "status: {cost: all}\n", "status.cost: must be of type object"),
        (JOB + f"  priority: {'9' * 5000}\n", "is not YAML: Exceeds the limit"),
        ('{"kind": ' + "[" * 100_000, "is not YAML"),
        (JOB + "  deadlin: 1\n", 'unknown field "spec.deadlin": did you mean deadline?'),
        (JOB.replace("v1alpha1", "v9"), "apiVersion is 'spotrun.dev/v9'"),
        (JOB + "  a: [\n", "is not YAML: while parsing"),
        ("a: " + "[" * 100_000, "is not YAML"),
        (
            "!!python/object/apply:os.system [true]",
            "is not YAML: could not determine a constructor",
        ),
        ("#" * 4_000_001, "is larger than any Kubernetes object"),
    ],
)
def test_what_is_no_job_is_refused_with_its_file(tmp_path: Path, text: str, complaint: str) -> None:
    path = a_file(tmp_path, text)

    with pytest.raises(ValueError, match=r"job\.yaml") as refused:
        read(path)

    assert complaint in str(refused.value)


def test_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ValueError, match="is not text"):
        read(str(tmp_path / "job.yaml"))
