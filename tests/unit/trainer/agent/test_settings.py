from pathlib import Path

import pytest

from spotrun_trainer.agent.settings import Settings, read_settings

ENV = {
    "SPOTRUN_DIR": "/run/spotrun",
    "SPOTRUN_NAMESPACE": "team",
    "SPOTRUN_JOB": "job",
    "SPOTRUN_WORKER": "job-abcde-0",
    "SPOTRUN_SERVER": "sync.spotrun-system:9443",
    "SPOTRUN_CA": "PEM",
    "SPOTRUN_TOKEN_FILE": "/var/run/secrets/spotrun.dev/token",
    "POD_IP": "10.0.0.7",
}


def test_the_operators_variables_are_read() -> None:
    assert read_settings(ENV) == Settings(
        directory=Path("/run/spotrun"),
        namespace="team",
        job="job",
        worker="job-abcde-0",
        server="sync.spotrun-system:9443",
        authorities="PEM",
        token_file=Path("/var/run/secrets/spotrun.dev/token"),
        address="10.0.0.7",
        last_words=Path("/dev/termination-log"),
        give_up_seconds=3600.0,
    )


def test_where_last_words_go_and_when_to_give_up_can_be_chosen() -> None:
    chosen = {"SPOTRUN_TERMINATION_LOG": "/dev/words", "SPOTRUN_GIVE_UP_SECONDS": "90"}
    found = read_settings(ENV | chosen)
    assert (found.last_words, found.give_up_seconds) == (Path("/dev/words"), 90.0)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, None),
        ({"SPOTRUN_CHECKPOINT": "s3://bucket/job", "SPOTRUN_CHECKPOINT_KEEP": "3"}, None),
        ({"SPOTRUN_CHECKPOINT": "/read-only"}, None),  # a template's own, without spec.checkpoint
        (
            {"SPOTRUN_CHECKPOINT": "/checkpoints/team/job", "SPOTRUN_CHECKPOINT_KEEP": "3"},
            Path("/checkpoints/team/job"),
        ),
    ],
)
def test_the_folder_for_checkpoints_is_known_where_the_job_names_a_volume(
    env: dict[str, str], expected: Path | None
) -> None:
    assert read_settings(ENV | env).checkpoints == expected


@pytest.mark.parametrize("name", sorted(ENV))
def test_what_is_missing_is_named(name: str) -> None:
    env = {key: value for key, value in ENV.items() if key != name}
    with pytest.raises(ValueError, match=f"{name} is not set: .* TrainingJob"):
        read_settings(env)


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_seconds_are_a_number(text: str) -> None:
    with pytest.raises(ValueError, match="SPOTRUN_GIVE_UP_SECONDS must be a number of seconds"):
        read_settings(ENV | {"SPOTRUN_GIVE_UP_SECONDS": text})


@pytest.mark.parametrize(("given", "seconds"), [("113.0", 113.0), ("5", 30.0), ("", 30.0)])
def test_processes_have_the_pods_grace_and_never_less_than_torchrun_gives(
    given: str, seconds: float
) -> None:
    assert read_settings({**ENV, "SPOTRUN_GRACE_SECONDS": given}).grace_seconds == seconds
