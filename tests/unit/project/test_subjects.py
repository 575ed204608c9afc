"""scripts/subjects.py: which subjects of commits pass, in which clones it looks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.project.parts import ROOT

SCRIPT = ROOT / "scripts/subjects.py"


@pytest.fixture
def subjects() -> ModuleType:
    """The script as a module of the test's own."""
    spec = importlib.util.spec_from_file_location("subjects", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def repository(tmp_path: Path, subjects: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose first commit is the base, with one good commit after it."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "earlier commits may be called anything.")
    monkeypatch.setattr(subjects, "BASE", git(tmp_path, "rev-parse", "HEAD").strip())
    commit(tmp_path, "Pass on what a peer says")
    return tmp_path


def git(repository: Path, *arguments: str) -> str:
    names = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(repository), *names, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commit(repository: Path, subject: str) -> None:
    git(repository, "commit", "--quiet", "--allow-empty", "--message", subject)


@pytest.mark.parametrize(
    "subject",
    ["Move the codec", "Pass bytes on", "Bring it back", "Feed the parser", "SASL: refuse an empty name", "A" * 72],
)
def test_these_subjects_pass(subjects: ModuleType, subject: str) -> None:
    assert [*subjects.faults(subject)] == []


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("A" * 73, "73 characters, 72 at most"),
        ("move the codec", "begins without a capital letter"),
        ("", "begins without a capital letter"),
        ("Move the codec.", "ends with a full stop"),
        ("Fixes a crash", "'Fixes' is no imperative"),
        ("Fixed a crash", "'Fixed' is no imperative"),
        ("Fixing a crash", "'Fixing' is no imperative"),
    ],
)
def test_these_subjects_do_not(subjects: ModuleType, subject: str, fault: str) -> None:
    assert [*subjects.faults(subject)] == [fault]


def test_only_commits_after_the_base_are_checked(
    repository: Path, subjects: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert subjects.main(repository) == 0
    assert capsys.readouterr().out == "subjects: 1 commits, 0 faults\n"


def test_a_bad_subject_fails_until_it_is_excused(
    repository: Path, subjects: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(repository, "Fixed it.")
    assert subjects.main(repository) == 1
    assert "'Fixed it.': ends with a full stop" in capsys.readouterr().out
    monkeypatch.setattr(subjects, "EXCUSED", frozenset({git(repository, "rev-parse", "HEAD").strip()}))
    assert subjects.main(repository) == 0


def test_a_shallow_clone_checks_nothing(
    repository: Path, subjects: ModuleType, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path_factory.mktemp("shallow")
    git(repository, "clone", "--quiet", "--depth", "1", repository.as_uri(), str(clone))
    assert subjects.main(clone) == 0
    assert "nothing to check" in capsys.readouterr().out


def test_a_folder_without_a_repository_and_a_machine_without_git_check_nothing(
    subjects: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert subjects.main(tmp_path) == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    assert subjects.main(tmp_path) == 0
    assert capsys.readouterr().out.count("nothing to check") == 2


def test_lint_runs_it() -> None:
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    assert "$(BIN)/python scripts/subjects.py" in lint
    assert subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True).stdout.count("subjects: ") == 1
