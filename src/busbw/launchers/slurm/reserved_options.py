"""Options of Slurm that a launch settles by itself, and refuses to be given."""

import re
from collections.abc import Iterable

from busbw.errors import UsageError

RESERVED = (("output", "error", "array", "clusters", "wait", "test-only"), "oeaMW")
RESERVED_BY_SRUN = (("output", "error", "clusters", "label"), "oeMl")
"""Options that a launch cannot do with, by their long names and their letters."""


def refuse_reserved(name: str, options: Iterable[str], names: tuple[str, ...], letters: str) -> None:
    """Looks at what was given by the option `name`.

    Raises:
        UsageError: One is among those of these names and letters.
    """
    for option in options:
        if _is_settled(option, names, letters):
            raise UsageError(
                f"{name}={option}: where the output goes, on which cluster and how often a job runs, and who "
                "waits for it, is settled here",
                remedy="use --output-folder, --repeat, --detach, and SLURM_CLUSTERS for a cluster",
            )


def _is_settled(option: str, names: tuple[str, ...], letters: str) -> bool:
    """Whether it is one of those: a long name may be cut short, and letters without a value may stand before one."""
    if option.startswith("--"):
        given = option[2:].partition("=")[0]
        return any(given and name.startswith(given) for name in names)
    return re.match(f"-[hHkOQsv]*[{letters}]", option) is not None
