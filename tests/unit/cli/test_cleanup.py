"""`spotrun cleanup`: what its help promises, and what it says where there is no cluster."""

from pathlib import Path

import pytest

from spotrun.__main__ import main


def test_help_says_what_is_touched_and_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cleanup", "--help"])

    shown = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "spotrun cleanup --stop-deployment spotrun" in shown
    assert "no job and no pod is deleted" in shown
    assert "--watch-namespace NAME" in shown
    assert "--agents-port" not in shown


def test_flags_of_the_operator_are_not_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cleanup", "--agents-port", "8443"])

    assert ended.value.code == 2
    assert "unrecognized arguments: --agents-port" in capsys.readouterr().err


def test_without_a_kubeconfig_it_says_what_to_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert main(["cleanup", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "there is no kubeconfig at" in capsys.readouterr().err


def test_a_kubeconfig_that_cannot_be_used_is_a_wrong_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (tmp_path / "config").write_text("clusters: [")

    assert main(["cleanup", "--kubeconfig", str(tmp_path / "config")]) == 2
    said = capsys.readouterr().err
    wrong = f"{tmp_path / 'config'} cannot be read as a kubeconfig: "
    assert said.startswith(f"spotrun cleanup: {wrong}")
    assert "not done" not in said
