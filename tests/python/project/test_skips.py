"""Skipped tests where none may be: .ci/run sets NO_SKIPPED_TESTS."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from skips import ALLOWED

IN_THE_TEST = "import pytest\ndef test_it(): pytest.skip({reason!r})"
BY_A_MARK = "import pytest\n@pytest.mark.skipif(True, reason={reason!r})\ndef test_it(): pass"
BY_A_FIXTURE = "import pytest\n@pytest.fixture\ndef server(): pytest.skip({reason!r})\ndef test_it(server): pass"
OF_THE_MODULE = "import pytest\npytest.importorskip('no_such_module', reason={reason!r})\ndef test_it(): pass"
WAYS = [IN_THE_TEST, BY_A_MARK, BY_A_FIXTURE, OF_THE_MODULE]


def outcome(folder: Path, text: str, no_skips: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_one.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", "test_one.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "NO_SKIPPED_TESTS": no_skips},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_skipped_test_fails_and_says_why(tmp_path: Path, way: str) -> None:
    done = outcome(tmp_path, way.format(reason="no Slurm here"), "1")
    assert done.returncode != 0
    assert "skipped, which NO_SKIPPED_TESTS forbids: no Slurm here" in done.stdout
    assert re.search(r"=+ 1 (failed|error) in", done.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_a_test_is_skipped_elsewhere(tmp_path: Path, way: str) -> None:
    done = outcome(tmp_path, way.format(reason="no Slurm here"), "")
    assert "1 skipped in" in done.stdout
    assert "no Slurm here" in done.stdout


@pytest.mark.parametrize("reason", ALLOWED)
def test_packages_that_are_never_installed_may_be_missing(tmp_path: Path, reason: str) -> None:
    done = outcome(tmp_path, BY_A_MARK.format(reason=reason), "1")
    assert done.returncode == 0, done.stdout
    assert "1 skipped in" in done.stdout
    assert any(f'"{reason}"' in path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def test_other_outcomes_stay_as_they_are(tmp_path: Path) -> None:
    text = "import pytest\ndef test_good(): pass\n@pytest.mark.xfail(reason='known')\ndef test_bad(): assert False\n"
    done = outcome(tmp_path, text, "1")
    assert "1 passed, 1 xfailed in" in done.stdout


@pytest.mark.parametrize("tests", ["tests/python", "tests/integration"])
def test_the_projects_own_tests_have_the_hooks(tests: str) -> None:
    hooks = "from skips import pytest_make_collect_report, pytest_runtest_makereport"
    assert hooks in (ROOT / tests / "conftest.py").read_text()
    assert "NO_SKIPPED_TESTS=1 exec make test" in (ROOT / ".ci" / "run").read_text()
