"""Fixtures of the tests on GPUs. `make gpu-test` runs these tests. They fail without a GPU.

--backend host runs them with the host backend, to try out the tests themselves. Tests that need GPUs are then skipped.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import Machine, device_lines

SHARING_VARIABLE = "NCCL_MULTI_RANK_GPU_ENABLE"
"""Variable of NCCL 2.30 and later: processes may share a GPU."""
SHARING_RANKS = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", default="nccl", choices=["nccl", "host"], help="host: try the tests out without GPUs")
    parser.addoption("--long", action="store_true", help="also those tests that take minutes")
    parser.addoption("--results", type=Path, help="keep the records of all runs in this folder")


class FailuresAtOnce:
    """Writes each failure to a file at once, so that an aborted run keeps its failures."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self._path.open("a") as file:
                file.write(f"== {report.nodeid} ({report.when})\n{report.longreprtext}\n")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: no other test uses the GPUs meanwhile")
    config.addinivalue_line("markers", "long: takes minutes; only with --long")
    results = config.getoption("--results")
    if results and not hasattr(config, "workerinput"):  # parallel workers send their reports to their parent
        results.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(FailuresAtOnce(results.resolve() / "failures.txt"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="this takes minutes: --long"))


@pytest.fixture(scope="session")
def programs_folder() -> Path:
    """Folder of the programs: BUSBW_PROGRAMS if set, otherwise the folder of this Python."""
    named = os.environ.get("BUSBW_PROGRAMS")
    return Path(named).resolve() if named else Path(sys.executable).parent


@pytest.fixture(scope="session")
def gpu_count(pytestconfig: pytest.Config, programs_folder: Path) -> int:
    if pytestconfig.getoption("--backend") == "host":
        return 4
    return len(list(device_lines(programs_folder)))


@pytest.fixture
def machine(
    request: pytest.FixtureRequest,
    pytestconfig: pytest.Config,
    programs_folder: Path,
    gpu_count: int,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    """All GPUs, and a folder for this test's records."""
    backend = pytestconfig.getoption("--backend")
    if gpu_count == 0:
        pytest.fail("no GPU found; see busbw-engine --list-devices, or try out the tests with --backend host")
    results = pytestconfig.getoption("--results")
    folder = tmp_path
    if results:
        folder = results.resolve() / request.node.nodeid.rpartition("/")[2].replace("::", "-")
        folder.mkdir(parents=True, exist_ok=False)
    found = Machine(programs_folder, folder, gpu_count, backend)
    # Parallel tests share the GPUs. A test that is marked `alone` waits for exclusive use.
    alone = request.node.get_closest_marker("alone") is not None
    with (tmp_path_factory.getbasetemp().parent / "gpus.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield found
        found.stop_all()


@pytest.fixture
def gpus(machine: Machine) -> Machine:
    """The machine, for tests that need real GPUs."""
    if not machine.on_gpus:
        pytest.skip("this test needs GPUs")
    return machine


@pytest.fixture
def several(machine: Machine) -> Machine:
    """The machine, for tests that need more than one GPU."""
    if machine.count < 2:
        pytest.skip("this test needs two GPUs")
    return machine


@pytest.fixture
def several_ranks(machine: Machine) -> Machine:
    """The machine, for tests that need several ranks. They share a single GPU if the caller's variable allows it."""
    if machine.count < 2:
        if os.environ.get(SHARING_VARIABLE) != "1":
            pytest.skip(f"this test needs two GPUs, or NCCL 2.30 and {SHARING_VARIABLE}=1")
        machine.share_gpu(SHARING_RANKS)
    return machine
