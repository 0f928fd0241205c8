"""The programs, found where a user has them."""

import signal
from collections.abc import Iterator
from pathlib import Path

import polling
import pytest
from browser import browser  # noqa: F401  # a fixture
from installed import installed_in
from skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401  # they are hooks

from busbw.collectives import PROGRAMS

from .launchers import slurm as real_slurm
from .programs import PRETENDED_ENGINE, Programs, used_from

LONG_FILES = ("test_slurm.py", "test_endings.py", "test_hosts.py", "test_find_namespaces.py", "test_site.py")
"""Files that run for minutes, longest first. A worker that starts one of them last finishes long after the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the long files to the front; `--no-loadscope-reorder` keeps this order between workers."""
    rank = {name: number for number, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture(autouse=True)
def _default_hangups() -> Iterator[None]:
    """Programs ignore the signals that their parent ignores, such as hang-ups under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """The installed programs, to run in an empty folder."""
    folder = installed_in()
    names = ["busbw-engine", *(f"{collective}_perf" for collective in PROGRAMS)]
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        pytest.fail(f"{folder} lacks {' '.join(missing)}: install busbw, or set BUSBW_PROGRAMS to the programs' folder")
    yield from used_from(folder, tmp_path)


@pytest.fixture
def pretended(tmp_path: Path) -> Iterator[Programs]:
    """The engine over fakes of CUDA and NCCL, to run in an empty folder."""
    build = Path(__file__).resolve().parents[2] / "build" / "gpu-compile"
    if not (build / PRETENDED_ENGINE).exists():
        pytest.skip(f"there is no {build / PRETENDED_ENGINE}: tools/test.sh builds it where it has CUDA's compiler")
    yield from used_from(build, tmp_path)


@pytest.fixture(scope="session")
def _slurm_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real_slurm.Slurm]:
    """Started by the first test that wants it."""
    if why := real_slurm.skip_reason():
        pytest.skip(f"no Slurm here: {why}")
    cluster = real_slurm.Slurm(tmp_path_factory.mktemp("slurm"), nodes=4)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def slurm(_slurm_of_the_session: real_slurm.Slurm) -> Iterator[real_slurm.Slurm]:
    """A real Slurm of four virtual nodes with nothing in its queue; SLURM_CONF names it in `with_slurm`."""
    yield _slurm_of_the_session
    _slurm_of_the_session.clear()


@pytest.fixture
def free_port() -> int:
    """A port of the loopback interface that nobody listened on a moment ago."""
    return polling.free_port()
