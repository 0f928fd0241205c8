"""Values of NVML that a healthy GPU does not have. ADD A VALUE to values.toml."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from busbw.doctor.facts.gpus import Gpu
from busbw.doctor.model import Check, CheckTexts, Finding, Machine, Severity, make_check
from busbw.doctor.parts.gpus import gpu_finding, require_fields, value_of
from busbw.doctor.parts.value_patterns import matches


class _BadValue(Struct, array_like=True, frozen=True):
    """Row of values.toml, which explains the columns. Of the rows of a check, the first one that matches decides."""

    field: str
    values: str
    severity: Severity
    problem: str
    fix: str | None = None


class _Entry(CheckTexts, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Check of values.toml."""

    bad: tuple[_BadValue, ...]
    shown: tuple[str, ...] = ()
    """Further fields in the evidence."""


def _judge(entry: _Entry, _: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        row = next((row for row in entry.bad if matches(str(value_of(gpu, row.field)), row.values)), None)
        if row is not None:
            problem = row.problem.format(value=value_of(gpu, row.field))
            yield gpu_finding(gpu, row.severity, problem, row.field, *entry.shown, fix=row.fix)


def _check(name: str, entry: _Entry) -> Check[Machine]:
    fields = tuple(dict.fromkeys(row.field for row in entry.bad))
    examine = require_fields(*fields)(partial(_judge, entry))
    return make_check(entry, name, "gpu", f"NVML: {', '.join(fields)}", examine)


_ENTRIES = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, _Entry])
CHECKS = tuple(_check(name, entry) for name, entry in _ENTRIES.items())
