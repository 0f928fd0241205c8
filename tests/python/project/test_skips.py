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


def run_modules(folder: Path, modules: list[str], no_skips: str) -> "subprocess.CompletedProcess[str]":
    """Runs pytest once on modules with these texts."""
    for number, text in enumerate(modules):
        (folder / f"test_{number}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", "--continue-on-collection-errors"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "NO_SKIPPED_TESTS": no_skips},
        capture_output=True,
        text=True,
    )


def test_a_skipped_test_fails_and_says_why(tmp_path: Path) -> None:
    done = run_modules(tmp_path, [way.format(reason=f"reason {number}") for number, way in enumerate(WAYS)], "1")
    assert done.returncode != 0
    for number in range(len(WAYS)):
        assert f"skipped, which NO_SKIPPED_TESTS forbids: reason {number}" in done.stdout
    assert re.search(r"=+ 1 failed, 3 errors in", done.stdout), done.stdout


def test_a_test_is_skipped_elsewhere(tmp_path: Path) -> None:
    done = run_modules(tmp_path, [way.format(reason=f"reason {number}") for number, way in enumerate(WAYS)], "")
    assert f"{len(WAYS)} skipped in" in done.stdout
    for number in range(len(WAYS)):
        assert f"reason {number}" in done.stdout


def test_packages_that_are_never_installed_may_be_missing(tmp_path: Path) -> None:
    done = run_modules(tmp_path, [BY_A_MARK.format(reason=reason) for reason in ALLOWED], "1")
    assert done.returncode == 0, done.stdout
    assert f"{len(ALLOWED)} skipped in" in done.stdout
    tests = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    for reason in ALLOWED:
        assert any(f'"{reason}"' in text for text in tests), reason


def test_other_outcomes_stay_as_they_are(tmp_path: Path) -> None:
    text = "import pytest\ndef test_good(): pass\n@pytest.mark.xfail(reason='known')\ndef test_bad(): assert False\n"
    done = run_modules(tmp_path, [text], "1")
    assert "1 passed, 1 xfailed in" in done.stdout


@pytest.mark.parametrize("tests", ["tests/python", "tests/integration"])
def test_the_projects_own_tests_have_the_hooks(tests: str) -> None:
    hooks = "from skips import pytest_make_collect_report, pytest_runtest_makereport"
    assert hooks in (ROOT / tests / "conftest.py").read_text()
    assert "NO_SKIPPED_TESTS=1 exec make test" in (ROOT / ".ci" / "run").read_text()
