"""Separates the observations of a comparison by system, so that figures of unlike systems are not paired or averaged.

`busbw.comparability` decides which systems are alike. A configuration with figures of one system per side needs no
separation if the two are alike. Otherwise the points name their system, and only points of like systems are paired.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from busbw.comparability import (
    Difference,
    FactName,
    SystemFacts,
    device_label,
    differences_text,
    find_differences,
    launches_of,
    method_text,
)
from busbw.compare.figures import PointFigures
from busbw.compare.pairing import Observations
from busbw.compare.result import PointKey
from busbw.errors import UsageError
from busbw.logs.log import Table
from busbw.units import count_text, size_text

_SystemsByConfiguration = dict[PointKey, dict[SystemFacts, set[int]]]
"""For each configuration of a side: its systems, each with the runs on it. The key has neither size nor placement."""


_SystemLabels = dict[tuple[PointKey, SystemFacts], str | None]
"""For each configuration and system of a side: value of `PointKey.system`. None if the points name no system."""

FiguresByPoint = dict[PointKey, PointFigures]
"""Figures of one side by points that name their system if necessary."""


class SeparatedSides(NamedTuple):
    """Figures of both sides. At each point, a side has figures of one system only."""

    a: FiguresByPoint
    b: FiguresByPoint
    notes: tuple[str, ...]
    """One sentence per assumption or permitted difference."""


def separate_systems(
    a: tuple[Observations, Sequence[Table]], b: tuple[Observations, Sequence[Table]], *, any_system: bool = False
) -> SeparatedSides:
    """Separates the figures of unlike systems.

    Args:
        a: Observations of side A, and the tables that they are from, by run.
        b: Observations and tables of side B.
        any_system: True to pair one system of A with one of B even if they are unlike.

    Raises:
        UsageError: A side has unlike runs of one configuration on one system. Or a system of B is like several systems
            of A, or the other way round.
    """
    (observations_a, tables_a), (observations_b, tables_b) = a, b
    systems_a, systems_b = _list_systems(observations_a), _list_systems(observations_b)
    for name, systems, tables in (("A", systems_a, tables_a), ("B", systems_b, tables_b)):
        for configuration, runs_by_system in systems.items():
            for facts, runs in runs_by_system.items():
                _require_like_runs(name, configuration, facts, (tables[run] for run in sorted(runs)))
    labels_a: _SystemLabels = {}
    labels_b: _SystemLabels = {}
    notes: dict[str, None] = {}  # an ordered set
    for configuration in dict.fromkeys([*systems_a, *systems_b]):
        facts_a, facts_b = list(systems_a.get(configuration, {})), list(systems_b.get(configuration, {}))
        is_on_one_system = len(facts_a) + len(facts_b) == 1  # so only one side has the configuration
        is_paired = False
        if len(facts_a) == len(facts_b) == 1:
            is_paired = any_system or _are_like(facts_a[0], facts_b[0])
            notes |= dict.fromkeys(_pairing_notes(facts_a[0], facts_b[0], is_paired=is_paired))
        if is_on_one_system or is_paired:  # there is no other system to tell apart
            labels_a |= {(configuration, facts): None for facts in facts_a}
            labels_b |= {(configuration, facts): None for facts in facts_b}
            continue
        # A system of B gets the label of the like system of A, so that the points of both are equal.
        partners = _pair_systems(configuration, facts_a, facts_b)
        labels_a |= {(configuration, facts): facts.text for facts in facts_a}
        labels_b |= {(configuration, facts): (partners[facts] or facts).text for facts in facts_b}
    return SeparatedSides(_add_labels(observations_a, labels_a), _add_labels(observations_b, labels_b), tuple(notes))


def _configuration(point: PointKey) -> PointKey:
    """Returns the key of `_SystemsByConfiguration`."""
    return msgspec.structs.replace(point, size_bytes=0, placement="unstated")


def _list_systems(side: Observations) -> _SystemsByConfiguration:
    systems: _SystemsByConfiguration = {}
    for point, by_system in side.items():
        runs_by_system = systems.setdefault(_configuration(point), {})
        for facts, figures in by_system.items():
            runs_by_system.setdefault(facts, set()).update(figures.runs)
    return systems


def _pairing_notes(facts_a: SystemFacts, facts_b: SystemFacts, *, is_paired: bool) -> Iterator[str]:
    """Yields sentences on the assumptions about one system of A and one of B."""
    if facts_a.gpu is None and facts_b.gpu is None:
        label = device_label(facts_a.by_name(), facts_b.by_name())
        yield f"Neither side states its {label}: whether both ran on like systems is not known."
    if is_paired:
        blockers, unstated = _find_system_differences(facts_a, facts_b)
        yield from (f"Unlike systems: {difference.text}." for difference in blockers)
        yield from (f"{difference.text}: assumed to be equal." for difference in unstated)


def _find_system_differences(facts_a: SystemFacts, facts_b: SystemFacts) -> tuple[list[Difference], list[Difference]]:
    """Returns the differences that make the systems unlike, and the facts that one side does not state."""
    return find_differences(facts_a.by_name(), facts_b.by_name(), run_name="A", other_name="B")


def _are_like(facts_a: SystemFacts, facts_b: SystemFacts) -> bool:
    blockers, _ = _find_system_differences(facts_a, facts_b)
    return not blockers


def _pair_systems(
    configuration: PointKey, facts_a: Sequence[SystemFacts], facts_b: Sequence[SystemFacts]
) -> dict[SystemFacts, SystemFacts | None]:
    """Returns the like system of A for each system of B. None if A has none."""
    partners: dict[SystemFacts, SystemFacts | None] = {}
    for facts in facts_b:
        like_systems = [candidate for candidate in facts_a if _are_like(candidate, facts)]
        is_partner_of_other = bool(like_systems) and like_systems[0] in partners.values()
        if len(like_systems) > 1 or is_partner_of_other:
            raise UsageError(
                f"{configuration.configuration_text} has figures of several systems, and {facts.text} of B may be "
                f"{' or '.join(candidate.text for candidate in like_systems)} of A",
                remedy="compare two tables of one log (busbw compare LOG --variants '#1' '#2')",
            )
        partners[facts] = like_systems[0] if like_systems else None
    return partners


def _add_labels(side: Observations, labels: _SystemLabels) -> FiguresByPoint:
    parts: dict[PointKey, list[PointFigures]] = {}
    for point, by_system in side.items():
        configuration = _configuration(point)
        for facts, figures in by_system.items():
            labeled_point = msgspec.structs.replace(point, system=labels[configuration, facts])
            parts.setdefault(labeled_point, []).append(figures)
    return {point: PointFigures.merged(figures) for point, figures in parts.items()}


def _require_like_runs(name: str, configuration: PointKey, facts: SystemFacts, tables: Iterator[Table]) -> None:
    """Raises UsageError if tables of one side are no repetitions of one run, because their figures are averaged."""
    first = next(tables)
    for table in tables:
        blockers, differences = find_differences(
            _run_facts(first, facts), _run_facts(table, facts), run_name="one", other_name="the other"
        )
        if stated := [difference for difference in (*blockers, *differences) if difference.is_stated]:
            raise UsageError(
                f"{name} has unlike runs of {configuration.configuration_text} in lines {first.first_line} and "
                f"{table.first_line}: {differences_text(stated)}",
                remedy="compare two of its tables (busbw compare LOG --variants '#1' '#2')",
            )


def _run_facts(table: Table, system: SystemFacts) -> dict[FactName, object]:
    """Returns the facts that all repetitions of one run share.

    If the device is not stated, only equal headings and sizes suggest that tables are of one system.
    """
    facts: dict[FactName, object] = {
        "library": table.library,
        "method": method_text(table) or "default",
        "launches": launches_of(table),
    }
    if system.gpu is None:
        sizes = sorted({row.size_bytes for row in table.rows})
        sweep = f"{size_text(sizes[0])} to {size_text(sizes[-1])} in {count_text(len(sizes), 'size')}"
        facts["heading"] = table.title or "none"
        facts["sweep"] = None if table.complete is False else sweep
    return facts
