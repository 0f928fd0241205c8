"""Finds a system by its name, or by that of a machine type."""

from collections.abc import Sequence

from busbw.launchers.machine_types.machine_type import find_built_in
from busbw.system import System, find, systems


def named_system(name: str, *, words: Sequence[str] = ()) -> System:
    """Returns the system with a name, that of a machine type such as p5.48xlarge, or that of a file.

    Args:
        name: Name or path.
        words: Values that the caller accepts instead of a name, for the remedy of an unknown one.

    Raises:
        UsageError: The name is unknown, or the file is invalid.
    """
    machine_type = None if name in systems() else find_built_in(name)
    if machine_type and machine_type.expectation:
        return find(machine_type.expectation)
    return find(name, other_values=(*words, "a machine type"))
