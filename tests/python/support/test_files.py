"""Files that commands write: an error names the file, also if only the write fails."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from busbw.support.files import replace_file, write_file


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Lets each write beyond 10 bytes of a file fail, as on a full disk: opening the file still works."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("write", [replace_file, write_file])
@pytest.mark.usefixtures("full_disk")
def test_a_failed_write_names_its_file(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write(path, b"old")
    with pytest.raises(OSError, match="File too large") as failure:
        write(path, b"x" * 100)
    assert failure.value.filename == str(path)
    if write is replace_file:
        assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
