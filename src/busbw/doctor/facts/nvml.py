"""Calls of NVML (the Python package nvidia-ml-py). A failed call does not affect others.

No call creates a GPU context.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from busbw.doctor.model import Unreadable
from busbw.topology.sources.nvml import library
from busbw.units import plain

T = TypeVar("T")

LOST, NO_PERMISSION = 15, 4
"""Error codes: the GPU has fallen off the bus; the process may not use the GPU."""
_UNSUPPORTED = {2, 3, 13, 25, 26}
"""Error codes if the GPU or the driver lacks a feature, function, or version of a structure."""
_MEMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
"""Members of NVML's union `nvmlValue_t` with whole numbers, by the type of the value."""


@contextmanager
def open_nvml() -> Iterator[Any]:
    """Initializes NVML, and yields the package.

    Raises:
        Unreadable: The package or the driver's library is missing, or the driver does not answer.
    """
    nvml = library()
    if nvml is None:
        raise Unreadable("the Python package nvidia-ml-py")
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError, AttributeError) as error:
        raise Unreadable(f"an answer of NVIDIA's driver: {plain(str(error))}") from error
    try:
        yield nvml
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def attempt(nvml: Any, read: Callable[..., T], *arguments: object) -> tuple[T | None, str, int | None]:
    """Returns the value of a call, or None with the reason of the failure and NVML's error code.

    The reason is empty if the call succeeded, or if the GPU or the driver lacks the feature.
    """
    try:
        return read(*arguments), "", None
    # Some functions of the package raise other errors than NVMLError.
    except (nvml.NVMLError, OSError, AttributeError, ValueError, TypeError) as error:
        code = getattr(error, "value", None)
        reason = "" if code in _UNSUPPORTED else plain(str(error)) or type(error).__name__
        return None, reason, code


def field_values(nvml: Any, handle: Any, fields: list[tuple[int, int]]) -> list[int | None]:
    """Returns values of NVML's fields. None for an unsupported field, and for a value that is no whole number.

    `fields` has the number and the scope of each field. The scope is the number of a link, for example.

    Raises:
        NVMLError: A value cannot be read.
    """
    values: list[int | None] = []
    for field in nvml.nvmlDeviceGetFieldValues(handle, fields):
        if field.nvmlReturn and field.nvmlReturn not in _UNSUPPORTED:
            raise nvml.NVMLError(field.nvmlReturn)
        is_known = not field.nvmlReturn and field.valueType in _MEMBERS
        values.append(int(getattr(field.value, _MEMBERS[field.valueType])) if is_known else None)
    return values
