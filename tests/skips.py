"""Pytest hooks for conftest.py: a skipped test fails if NO_SKIPPED_TESTS is set, as in .ci/run.

Otherwise a component that could not be installed would silently remove all its tests.
"""

import os
from collections.abc import Generator

import pytest

VARIABLE = "NO_SKIPPED_TESTS"

ALLOWED = (
    # test_ab_container.py: tools/setup.sh installs no container runtime, and many containers cannot run one.
    "needs root, podman, buildah and runc",
    "containers cannot be run here",
)
"""Reasons for which a test may be skipped: components that `tools/setup.sh test` does not install."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_forbidden_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_forbidden_skip(report)
    return report


def _fail_forbidden_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    is_expected_failure = hasattr(report, "wasxfail")
    if report.outcome != "skipped" or is_expected_failure or not os.environ.get(VARIABLE):
        return
    # For a skip, longrepr is a tuple of file, line and reason.
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = text.removeprefix("Skipped: ")
    if reason not in ALLOWED:
        report.outcome = "failed"
        report.longrepr = f"skipped, which {VARIABLE} forbids: {reason}"
