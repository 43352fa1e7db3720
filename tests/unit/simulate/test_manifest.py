"""TrainingJobs from files: what is read as kubectl reads it, and what is refused."""

from pathlib import Path

import pytest

from spotrun.simulate.manifest import read

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
    for path in sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
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


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_of_a_job_is_read(path: Path) -> None:
    assert read(str(path)).spec.workers.max >= 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has to hold one TrainingJob, and holds none"),
        (POOL, "has to hold one TrainingJob, and holds none"),
        ("just words", "has to hold one TrainingJob, and holds none"),
        (f"{JOB}---\n{JOB}", "holds 2 of them (gpt, gpt)"),
        (JOB + "  deadlin: 1\n", 'unknown field "spec.deadlin": did you mean deadline?'),
        (JOB.replace("v1alpha1", "v9"), "apiVersion is 'spotrun.dev/v9'"),
        (JOB + "  a: [\n", "is not YAML: while parsing"),
        ("a: " + "[" * 100_000, "is not YAML"),
        (
            "!!python/object/apply:os.system [true]",
            "is not YAML: could not determine a constructor",
        ),
        ("#" * 4_000_001, "is larger than any object of Kubernetes"),
    ],
)
def test_what_is_no_job_is_refused_with_its_file(tmp_path: Path, text: str, complaint: str) -> None:
    path = a_file(tmp_path, text)

    with pytest.raises(ValueError, match=r"job\.yaml") as refused:
        read(path)

    assert complaint in str(refused.value)


def test_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ValueError, match="is no text"):
        read(str(tmp_path / "job.yaml"))
