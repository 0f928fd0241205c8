"""Rejects Slurm options that the launcher sets itself."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from busbw.errors import UsageError

_VALUELESS_LETTERS = "hHkOQsv"
"""Letters of options without a value. Other letters may follow them, as in `-Qo`."""


class ReservedOptions(NamedTuple):
    """Options of a Slurm command that a user cannot set."""

    names: tuple[str, ...]
    """Long names, without dashes."""
    letters: str
    """Letters of their short forms."""


RESERVED_BY_SBATCH = ReservedOptions(("output", "error", "array", "clusters", "wait", "test-only"), "oeaMW")
RESERVED_BY_SRUN = ReservedOptions(("output", "error", "clusters", "label"), "oeMl")


def reject_reserved(name: str, options: Iterable[str], reserved: ReservedOptions) -> None:
    """Checks the Slurm options that the user passed with busbw's option `name`.

    Raises:
        UsageError: One of them has a reserved name or letter.
    """
    for option in options:
        if _is_reserved(option, reserved):
            raise UsageError(
                f"{name}={option}: busbw sets the options for output, cluster, repetition and waiting itself",
                remedy="use --output-folder, --repeat, --detach, or SLURM_CLUSTERS",
            )


def _is_reserved(option: str, reserved: ReservedOptions) -> bool:
    """True for a reserved option. Slurm also accepts abbreviated names, as in `--out`, and combined letters."""
    if option.startswith("--"):
        name_part = option[2:].partition("=")[0]
        return bool(name_part) and any(name.startswith(name_part) for name in reserved.names)
    return re.match(f"-[{_VALUELESS_LETTERS}]*[{reserved.letters}]", option) is not None
