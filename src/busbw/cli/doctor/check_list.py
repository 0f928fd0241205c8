"""List of the checks, as text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from busbw.cli.doctor.wrapping import wrap_text
from busbw.doctor.model import Check
from busbw.doctor.result import FORMAT
from busbw.units import count_text

_FIELDS = ("area", "reads", "rule", "source", "cost", "fix", "needs_root")


def check_list_object(checks: Sequence[Check[Any]]) -> dict[str, object]:
    """Returns the object of `--json`."""
    return {"format": FORMAT, "checks": [_check_object(check) for check in checks]}


def _check_object(check: Check[Any]) -> dict[str, object]:
    return {"check": check.name} | {name: getattr(check, name) for name in _FIELDS}


def check_list_lines(checks: Sequence[Check[Any]]) -> Iterator[Text]:
    """Yields the texts of the checks, grouped by area."""
    area = ""
    for check in checks:
        if check.area != area:
            area = check.area
            yield Text(area.upper(), style="bold")
        yield Text(f"  {check.name}{'  (needs root)' if check.needs_root else ''}", style="bold")
        for title in ("rule", "reads", "cost", "fix", "source"):
            yield from wrap_text(f"    {title:8}", getattr(check, title))
    yield Text(count_text(len(checks), "check"))
