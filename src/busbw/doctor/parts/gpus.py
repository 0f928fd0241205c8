"""NVIDIA GPUs of an examined machine: GPUs on the bus, in the list of the driver, and in the values of NVML."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from itertools import product
from typing import Any

import msgspec

from busbw.doctor.facts.gpus import Gpu, Gpus
from busbw.doctor.facts.process import Environment
from busbw.doctor.model import Damage, Evidence, Finding, Machine, NotApplicable, Severity, Unreadable, require
from busbw.doctor.parts import pci
from busbw.doctor.parts.job import is_container_without_gpu
from busbw.doctor.parts.nics import majority_value

Rule = Callable[[Machine, Sequence[Gpu]], Iterator[Finding]]
"""Yields the findings of GPUs that report the values of a check. Raises NotApplicable or Unreadable."""


def pci_gpus(machine: Machine) -> tuple[pci.PciDevice, ...]:
    """Returns all NVIDIA GPUs on the bus. In a container, the bus shows the GPUs of the host."""
    return tuple(gpu for gpu in pci.gpus(machine, of_host=True) if gpu.vendor == pci.NVIDIA)


def require_gpus(machine: Machine) -> None:
    """Raises NotApplicable if the machine or the container has no NVIDIA GPU."""
    require(machine.names_or_empty(pci.DRIVER_GPUS) or pci_gpus(machine), "no NVIDIA GPU")
    require(not is_container_without_gpu(machine), "this container has no GPU")


def read_nvml(machine: Machine) -> Gpus:
    """Returns the values of NVML. Raises NotApplicable if the machine has no NVIDIA GPU."""
    require_gpus(machine)
    return machine.fact(Gpus)


def used_gpus(machine: Machine) -> tuple[Gpu, ...]:
    """Returns the GPUs with the indexes in CUDA_VISIBLE_DEVICES. All GPUs if the variable lists no index.

    The indexes are those of NVML. CUDA uses the same ones if CUDA_DEVICE_ORDER is PCI_BUS_ID.
    """
    gpus = read_nvml(machine).gpus
    words = machine.fact(Environment).variables.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return tuple(gpu for gpu in gpus if str(gpu.index) in map(str.strip, words)) or gpus


def value_of(gpu: Gpu, field: str) -> Any:
    """Returns a value by the path of its field, such as "nvlinks.recoveries". None if the GPU lacks it."""
    value: Any = gpu
    for name in field.split("."):
        value = getattr(value, name, None)
    return value


def gpus_with_fields(machine: Machine, *fields: str) -> tuple[tuple[Gpu, ...], str]:
    """Returns the used GPUs with all these fields, and the reason for which reading a field failed. Empty: none failed.

    Raises:
        NotApplicable: No GPU has these fields, and no GPU failed to report them.
    """
    gpus = used_gpus(machine)
    failures = []
    for gpu, field in product(gpus, fields):
        value_name = field.partition(".")[0]
        if value_name in gpu.failures:
            failures.append(f"{gpu.label} {field}: {gpu.failures[value_name]}")
    complete = tuple(gpu for gpu in gpus if all(value_of(gpu, field) is not None for field in fields))
    require(complete or failures, f"no GPU reports {', '.join(fields)}")
    return complete, failures[0] if failures else ""


def require_fields(*fields: str) -> Callable[[Rule], Callable[[Machine], Iterator[Finding]]]:
    """Turns a rule for the GPUs that report these fields into an examination of a machine.

    If a GPU fails to report a field, the examination yields the findings of the other GPUs, then raises Unreadable.
    """

    def make_examination(rule: Rule) -> Callable[[Machine], Iterator[Finding]]:
        @wraps(rule)
        def examine(machine: Machine) -> Iterator[Finding]:
            gpus, failure = gpus_with_fields(machine, *fields)
            try:
                yield from rule(machine, gpus)
            except NotApplicable:
                if not failure:
                    raise
            if failure:
                raise Unreadable(failure)

        return examine

    return make_examination


def gpu_finding(
    gpu: Gpu, severity: Severity, problem: str, *fields: str, damage: Damage | None = None, fix: str | None = None
) -> Finding:
    """Returns a finding about a GPU, with fields as evidence. `problem` lacks the GPU: "has MIG enabled"."""
    evidence = tuple(
        Evidence(f"NVML, {gpu.label}, {field}", msgspec.json.encode(value_of(gpu, field)).decode()) for field in fields
    )
    return Finding(severity, f"{gpu.label} {problem}", evidence, subject=gpu.label, damage=damage, fix=fix)


def odd_gpus(gpus: Sequence[Gpu], field: str) -> Iterator[tuple[Gpu, Any]]:
    """Yields each GPU with a value that differs from the value of most GPUs of its name, and this usual value.

    Unknown values do not count as different. Without a majority, yields nothing: of two different GPUs, either may be
    wrong.
    """
    for name in dict.fromkeys(gpu.name for gpu in gpus):
        equal = [gpu for gpu in gpus if gpu.name == name]
        normal = majority_value(getattr(gpu, field) for gpu in equal)
        if normal is not None:
            yield from ((gpu, normal) for gpu in equal if getattr(gpu, field) not in (None, normal))


def has_nvswitch(machine: Machine) -> bool:
    """True if the driver lists NVLink switches, as on a DGX or HGX baseboard of NVLink 2 to 4."""
    return bool(machine.names_or_empty("proc/driver/nvidia-nvswitch/devices"))
