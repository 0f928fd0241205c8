"""Where NO_SKIPPED_TESTS is set, as .ci/run does, a skipped test is a failed one.

A component that could not be installed would otherwise take all tests on it away unseen. The hooks are for conftest.py.
"""

import os
from collections.abc import Generator

import pytest

VARIABLE = "NO_SKIPPED_TESTS"

ALLOWED = (
    # test_ab_container.py: tools/setup.sh installs no container runtime, and runtimes refuse to run in many containers.
    "needs root, podman, buildah and runc",
    "containers cannot be run here",
)
"""Reasons that stay reasons: what tools/setup.sh test does not install."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _judge(report)
    return report


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped" or not os.environ.get(VARIABLE) or hasattr(report, "wasxfail"):
        return
    reason = (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)).removeprefix(
        "Skipped: "
    )
    if reason not in ALLOWED:
        report.outcome = "failed"
        report.longrepr = f"skipped, which {VARIABLE} forbids: {reason}"
