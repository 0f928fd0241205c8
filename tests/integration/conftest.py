"""The programs, found where a user has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.engine import COLLECTIVES

from .programs import Programs, installed_in


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """The installed programs, to run in an empty folder."""
    folder = installed_in()
    names = ["busbw-engine", *(f"{collective}_perf" for collective in COLLECTIVES)]
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        pytest.fail(f"{folder} lacks {' '.join(missing)}: install busbw, or set BUSBW_PROGRAMS to the programs' folder")
    here = tmp_path / "here"
    here.mkdir()
    found = Programs(folder, here)
    yield found
    found.stop_all()
