"""Lists all checks of the modules below `checks`: their functions with `@check`, and their tuples CHECKS."""

import pkgutil
from functools import lru_cache
from importlib import import_module
from typing import Any

from busbw.doctor import checks
from busbw.doctor.model import Check
from busbw.doctor.model.check import Area

MACHINE_AREAS: tuple[Area, ...] = ("gpu", "nic", "host", "libraries", "scheduler")
"""Areas of the checks that examine one machine."""
ALL_AREAS: tuple[Area, ...] = (*MACHINE_AREAS, "log", "nodes")


@lru_cache(maxsize=1)
def all_checks() -> tuple[Check[Any], ...]:
    """Returns all checks, ordered by area and name."""
    found: list[Check[Any]] = []
    for module_info in pkgutil.walk_packages(checks.__path__, f"{checks.__name__}."):
        module = import_module(module_info.name)
        found += [
            *getattr(module, "CHECKS", ()),
            *(value for value in vars(module).values() if isinstance(value, Check)),
        ]
    return tuple(sorted(found, key=lambda check: (ALL_AREAS.index(check.area), check.name)))


def checks_of(*areas: Area) -> tuple[Check[Any], ...]:
    """Returns the checks of these areas."""
    return tuple(check for check in all_checks() if check.area in areas)
