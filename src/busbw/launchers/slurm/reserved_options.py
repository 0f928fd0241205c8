"""Rejects Slurm options that the launcher sets itself."""

import re
from collections.abc import Iterable

from busbw.errors import UsageError

_VALUELESS_LETTERS = "hHkOQsv"
"""Letters of options without a value. Other letters may follow them, as in `-Qo`."""
RESERVED = (("output", "error", "array", "clusters", "wait", "test-only"), "oeaMW")
RESERVED_BY_SRUN = (("output", "error", "clusters", "label"), "oeMl")
"""Long names and letters of options that a user cannot set: RESERVED with sbatch, RESERVED_BY_SRUN with srun."""


def reject_reserved(name: str, options: Iterable[str], names: tuple[str, ...], letters: str) -> None:
    """Checks the Slurm options that the user passed with the option `name`.

    Raises:
        UsageError: One of them has a reserved name or letter.
    """
    for option in options:
        if _is_reserved(option, names, letters):
            raise UsageError(
                f"{name}={option}: busbw sets the options for output, cluster, repetition and waiting itself",
                remedy="use --output-folder, --repeat, --detach, or SLURM_CLUSTERS",
            )


def _is_reserved(option: str, names: tuple[str, ...], letters: str) -> bool:
    """True for a reserved option. Slurm also accepts abbreviated names, as in `--out`, and combined letters."""
    if option.startswith("--"):
        name_part = option[2:].partition("=")[0]
        return any(name_part and name.startswith(name_part) for name in names)
    return re.match(f"-[{_VALUELESS_LETTERS}]*[{letters}]", option) is not None
