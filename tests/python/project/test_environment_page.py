"""docs/reference/environment.md names exactly the environment variables that the engine, fast path and command read."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.collectives import collectives

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "environment.md").read_text()

_READS = re.compile(
    r"getenv\(|\benviron\b|\benvironment\(|process_environment|Environment environment|environment\.get"
)
"""Files with such code read environment variables."""
_NAME = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Za-z0-9]+)+|RANK|TERM|COLUMNS)"')
_OWN_NAME = re.compile(r'"((?:BUSBW|NCCL_TESTS)(?:_[A-Z0-9]+)+)"')
_FROM_LOGS = ("src/busbw/expect", "src/busbw/judge")
"""Packages that read the variables of a log, not those of this process."""
_NOT_READ = {"ARRAY_INX", "TEST_ONLY", "SLURM_HOSTFILE", "LC_ALL"}
"""Parts of names that are removed for sbatch, and variables that are set for srun and for commands."""


def sources() -> Iterator[tuple[str, str]]:
    """Yields path and text of each source file of the installed programs."""
    for folder in ("common", "engine", "fastpath", "profiler", "src/busbw"):
        for path in (ROOT / folder).rglob("*"):
            name = str(path.relative_to(ROOT))
            if path.suffix in {".cpp", ".hpp", ".cu", ".py"} and not name.startswith(_FROM_LOGS):
                yield name, path.read_text()


def read_variables() -> set[str]:
    """Names of all variables that the sources read."""
    names: set[str] = set()
    for _, text in sources():
        names |= set(_OWN_NAME.findall(text))
        if _READS.search(text):
            names |= {name for name in _NAME.findall(text) if not re.search(rf"(?m)^{name}\b.*=", text)}
    # The fast path makes these names from the names of its collectives.
    names |= {f"BUSBW_FASTPATH_{name.upper()}" for name, collective in collectives().items() if collective.fast_methods}
    return names - _NOT_READ


READ = read_variables()


@pytest.mark.parametrize("name", sorted(READ))
def test_the_page_names_each_variable_that_is_read(name: str) -> None:
    assert re.search(rf"`{name}[`=]", PAGE), name


def test_each_variable_of_the_tables_is_read() -> None:
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`([A-Z][A-Z0-9_]*)`", cell)}
    assert len(named) > 30
    assert named - READ == set()
