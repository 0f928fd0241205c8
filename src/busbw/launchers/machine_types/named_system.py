"""Finds a system by its name, or by the name of a machine type."""

from collections.abc import Sequence

from busbw.launchers.machine_types.machine_type import find_built_in
from busbw.system import System, find, systems


def named_system(name: str, *, other_values: Sequence[str] = ()) -> System:
    """Returns the system for the name of a system, the name of a machine type such as p5.48xlarge, or a file.

    Args:
        name: Name or path.
        other_values: Values that the caller accepts besides names, such as `here`. The remedy of an unknown name
            lists them.

    Raises:
        UsageError: The name is unknown, or the file is invalid.
    """
    machine_type = None if name in systems() else find_built_in(name)
    if machine_type and machine_type.system:
        return find(machine_type.system)
    return find(name, other_values=(*other_values, "a machine type"))
