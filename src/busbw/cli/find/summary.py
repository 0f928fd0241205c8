"""Result of a search, as the object of `--json` and as text that begins with the findings.

A part is undecided if the flows do not tell it apart from other parts. Suspected parts are those with a finding and
those that are undecided. Suspected nodes are those with a suspected part. Each entry of `undecided` is an open
question, also an entry that names no part.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

import numpy as np
from msgspec import Struct

from busbw.cli.find.expectations import cost_sentence, typical_rate_gbps, undecided_flows
from busbw.cli.find.removal_commands import removal_lines
from busbw.errors import UNDECIDED, ExitCode
from busbw.find.findings import Finding, UndecidedParts, answers, lost_findings, make_findings, suspected_parts
from busbw.find.naming import NamedPart
from busbw.find.power import POWER_SLOWDOWN, KindPower, search_power
from busbw.find.search import Search
from busbw.find.search_plan import first_answer_rounds
from busbw.system import System
from busbw.terminal import console
from busbw.units import count_text, plain

SCHEMA = "busbw-find-1"
_INDENT = "    "
_MIN_STATED_CHANCE = 0.01
"""Minimum chance to find a slow part of a kind (`KindPower.found`) that the text states. A smaller one would be 0 %."""
_MAX_SUSPECTED_SHARE = 0.25
"""Share of suspected nodes above which the output warns: a search expects that few parts are slow."""
_MIN_SUSPECTED_NODES = 3
"""Minimum number of suspected nodes for this warning. One slow part between two nodes makes both nodes suspected."""
_NOUNS = {
    "gpu": ("GPU", "GPUs"),
    "nvlink": ("NVLink pair", "NVLink pairs"),
    "nic": ("NIC", "NICs"),
    "numa": ("NUMA node with some of the NICs", "NUMA nodes with some of the NICs"),
    "node": ("node", "nodes"),
    "pair": ("pair of nodes", "pairs of nodes"),
    "rail": ("rail", "rails"),
    "leaf": ("leaf switch", "leaf switches"),
    "uplink": ("set of uplinks of a leaf switch", "sets of uplinks, one per leaf switch"),
}
"""Singular and plural of each kind of part."""
_NEXT_STEPS = {
    "gpu": "compare nvidia-smi -q -d CLOCK,PERFORMANCE,ECC of this GPU with another one, then reset it",
    "nvlink": "read nvidia-smi nvlink --status and --errorcounters of these GPUs",
    "nic": "read width, rate and error counters of its port (mlxlink, ibstat, ethtool -S), then change cable or port",
    "numa": "compare its processor, memory and PCIe root (BIOS settings, clocks) with those of other NUMA nodes",
    "node": "compare its BIOS settings, PCIe links, CPU clocks and drivers with those of another node",
    "pair": "look for a bad link on the route between both nodes",
    "rail": "read the settings and the port counters of the switches of this rail",
    "leaf": "read the settings and the port counters of this switch",
    "uplink": "read the error counters of the ports to the spine switches",
}

_LOST_NEXT_STEP = "read the output of its process and the log of its node, then search again"


class FindSummary(Struct, frozen=True, kw_only=True):
    """Slow parts, found from flows or from logs of runs. The field names are keys of `--json`."""

    schema: str = SCHEMA
    findings: list[Finding]
    undecided: list[UndecidedParts]
    healthy: bool
    """True if no part is suspected, and no question is open.

    That says nothing about parts that no flow or run crosses. If `complete` is false, it says nothing about the rounds
    that were not measured: the answer is then UNDECIDED."""
    power: list[KindPower]
    rounds: int | None
    """Number of measured rounds. None if nothing was measured."""
    measured_s: float | None
    unsuspected_nodes: list[str]
    """Names of the nodes without a suspected part."""
    complete: bool
    """False if the search ended early. Then the result is from the rounds before the end."""
    unit: ClassVar[str] = "flow"
    """Observation that crosses the parts: flow or run."""

    @property
    def suspected(self) -> list[NamedPart]:
        """Parts of all findings, and all undecided parts."""
        return suspected_parts(self.findings, self.undecided)


class SearchSummary(FindSummary, frozen=True, kw_only=True):
    """Result of a search that measured flows."""

    rounds: int
    first_answer_rounds: int
    """Maximum number of rounds before the first answer. More rounds follow, for example while parts are undecided."""
    flows: int
    simulated: bool
    seed: int
    gpu_types: dict[str, int]
    """Number of GPUs of each type. One entry with an empty name if the types are not known to differ."""


def summarize(search: Search, system: System | None, *, is_simulated: bool, ended_early: bool) -> SearchSummary:
    """Returns the result of the rounds that a search has measured."""
    observed, explanation = search.observations(), search.explain()
    cluster = search.measurer.cluster
    slow, undecided = make_findings(observed, explanation, cluster)
    findings = [*lost_findings(search.lost, cluster, search.lost_nodes), *slow]
    power = search_power(observed, explanation)
    undecided += undecided_flows(search, system, power)
    return SearchSummary(
        findings=findings,
        undecided=undecided,
        healthy=not findings and not undecided,
        power=power,
        rounds=len(search.rounds),
        first_answer_rounds=first_answer_rounds(cluster),
        flows=sum(len(measured_round.source) for measured_round in search.rounds),
        measured_s=None if search.measured_s is None else round(search.measured_s, 3),
        simulated=is_simulated,
        unsuspected_nodes=unsuspected_nodes((node.name for node in cluster.nodes), findings, undecided),
        complete=not ended_early,
        seed=search.seed,
        gpu_types=dict(zip(cluster.gpu_types, np.bincount(cluster.gpu_type).tolist(), strict=True)),
    )


def unsuspected_nodes(
    names: Iterable[str], findings: Iterable[NamedPart], undecided: Iterable[UndecidedParts]
) -> list[str]:
    """Returns the names of the nodes without a suspected part."""
    suspected = {name for part in suspected_parts(findings, undecided) for name in (part.node, *(part.nodes or ()))}
    return [name for name in names if name not in suspected]


def result_exit_code(summary: FindSummary) -> int:
    """Returns the exit code of a complete search. After an early end, the caller decides."""
    if summary.findings:
        return ExitCode.SLOWER_THAN_DEMANDED
    return UNDECIDED if summary.undecided else ExitCode.GOOD


def print_plain(lines: Iterable[str]) -> None:
    """Prints lines without control characters, which names in a log or from a program may contain."""
    out = console()
    for line in lines:
        out.print(plain(line))


def summary_lines(summary: SearchSummary, search: Search, system: System | None) -> Iterator[str]:
    """Yields the result for people."""
    if not summary.complete:
        yield f"The search ended early. This is the result of its first {count_text(summary.rounds, 'round')}."
    yield from answer_lines(summary, lambda finding: cost_sentence(finding, search.measurer.cluster, system))
    if summary.healthy:
        yield _sentence_without_suspects(summary)
    node_count = len(search.measurer.cluster.nodes)
    suspected_count = node_count - len(summary.unsuspected_nodes)
    if suspected_count > _MAX_SUSPECTED_SHARE * node_count and suspected_count >= _MIN_SUSPECTED_NODES:
        yield (
            "Warning: many nodes have slow or undecided parts. A search compares parts with their peers and expects "
            "that most are healthy; compare the rates below with the rated ones."
        )
    if len(summary.gpu_types) > 1:
        types = ", ".join(f"{count:,} {name or 'of unknown type'}" for name, count in summary.gpu_types.items())
        yield f"Unlike GPUs: {types}. Flows are compared with flows between GPUs of the same types only."
    yield from power_lines(summary)
    duration = "" if summary.measured_s is None else f", {summary.measured_s:.1f} s"
    simulated = " of a simulated cluster" if summary.simulated else ""
    yield (
        f"Measured{simulated}: {count_text(summary.rounds, 'round')}, {count_text(summary.flows, 'flow')}{duration}; "
        f"{_rates_text(search)}; seed {summary.seed}."
    )


def _sentence_without_suspects(summary: FindSummary) -> str:
    """Returns the answer if no part is suspected and no question is open (`FindSummary.healthy`)."""
    if not summary.complete:
        return "UNDECIDED: no slow part so far; search again for the rest."
    is_any_kind_compared = any(power.is_compared for power in summary.power)
    if is_any_kind_compared:
        return "HEALTHY: no part is slower than its peers."
    # `undecided_flows` has found that the typical flows reach the expected rate. Otherwise a question would be open.
    return "HEALTHY: typical flows reach the expected rate."


def answer_text(summary: FindSummary) -> str:
    """Returns the answer without evidence and next steps, one sentence per finding."""
    return " ".join(answers(summary.findings, summary.undecided) or [_sentence_without_suspects(summary)])


def answer_lines(summary: FindSummary, cost_of: Callable[[Finding], str]) -> Iterator[str]:
    """Yields the findings and the undecided parts, with the next steps.

    Args:
        summary: The result.
        cost_of: Returns a sentence on the cost of a finding. Empty if the cost is unknown.
    """
    for finding in summary.findings:
        yield finding.answer
        yield f"{_INDENT}{finding.evidence[0].upper()}{finding.evidence[1:]}."
        if finding.same_as:
            yield f"{_INDENT}No flow tells it apart from {' and '.join(part.text for part in finding.same_as)}."
        if finding.cause:
            yield f"{_INDENT}Likely cause: {finding.cause}."
        if cost := cost_of(finding):
            yield f"{_INDENT}{cost}"
        yield f"{_INDENT}Next: {_LOST_NEXT_STEP if finding.lost else _NEXT_STEPS[finding.kind]}."
    yield from answers([], summary.undecided)
    yield from removal_lines(summary.findings)
    if summary.suspected:
        yield "busbw doctor looks for the cause on a node, and busbw doctor LAUNCHER on all nodes of a job."


def power_lines(summary: FindSummary) -> Iterator[str]:
    """Yields the chance to find a slow part, for each kind of part."""
    yield "Searched:"
    for power in summary.power:
        has_suspects = any(part.kind == power.kind for part in summary.suspected)
        yield f"{_INDENT}{power_sentence(power, has_suspects=has_suspects, unit=summary.unit)}"


def power_sentence(power: KindPower, *, has_suspects: bool, unit: str) -> str:
    """Returns a sentence on the chance to find a slow part of a kind.

    Args:
        power: Chance to find a slow part of the kind.
        has_suspects: True if a part of the kind is suspected.
        unit: Name of an observation: flow or run.
    """
    parts = count_text(power.all_parts, *_NOUNS[power.kind])
    if power.parts < power.all_parts:
        parts = f"{power.parts:,} of {parts}"
    slowdown = f"{100 * (POWER_SLOWDOWN - 1):.0f} %"
    observations = f"(typically {count_text(power.median_flows, unit)} per part)"
    if power.found < _MIN_STATED_CHANCE:
        return f"{parts}: not compared; a part that is slower by {slowdown} would hardly be found {observations}."
    exception = "apart from the above, " if has_suspects else ""
    # Rounded down, because no search is certain to find a slow part.
    chance = f"{min(np.floor(power.found * 100), 99):.0f} %"
    return (
        f"{parts}: {exception}none is slower than its peers by {slowdown} or more; "
        f"such a part would be found in {chance} of searches {observations}."
    )


def _rates_text(search: Search) -> str:
    """Returns the typical rates of the flows, to compare with the rated ones."""
    rates = [(name, typical_rate_gbps(search, is_network=name == "network")) for name in ("network", "NVLink")]
    known = [f"{name} {rate:.3g} GB/s" for name, rate in rates if rate is not None]
    return f"typical flows: {', '.join(known)}" if known else "the typical rate is not known"
