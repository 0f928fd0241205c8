"""Builds the page of a search (`busbw find`): its findings, and heat maps of its flows, which are analyzed again."""

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from busbw import __version__
from busbw.find.cluster import UNKNOWN, Cluster
from busbw.find.explanation import Explanation, explain
from busbw.find.findings import Finding, UndecidedParts, accused_parts, answers, make_findings
from busbw.find.naming import NamedPart
from busbw.find.observations import Observations
from busbw.recorded_search import RecordedSearch
from busbw.report.heat_grid import Box, Flows, heat_grid
from busbw.report.page import (
    Badge,
    ColumnHead,
    ConfigurationSection,
    DataTable,
    LogSection,
    NamedValue,
    Page,
    Picture,
    SummaryLine,
    SummarySection,
    TableSection,
)
from busbw.units import count_text

_ANCHOR = "search"
_MAX_SLOW_SHARE = 0.05
"""Share of slow healthy flows up to which collisions are so rare that a slow flow stands out."""
_NOTE = "Median slow-down, relative to comparable flows. Flows of rounds with collisions on uplinks are left out."


def build_search(search: RecordedSearch, source: str, *, title: str | None = None, is_redacted: bool = False) -> Page:
    """Makes the page of a search. `source`: name of its record, which is the heading without a title."""
    observed = Observations(search.cluster, search.rounds, search.results)
    explanation = explain(observed)
    findings, undecided = make_findings(observed, explanation, search.cluster)
    # Slowness of all parts follows from the rated rate of a system, not from the flows.
    result = search.end.result if search.end else {}
    stated = msgspec.convert(result.get("undecided", []), list[UndecidedParts])
    undecided += [parts for parts in stated if not parts.between]
    # Flows of a lost part are not in the record.
    findings[:0] = [one for one in msgspec.convert(result.get("findings", []), list[Finding]) if one.lost]
    accused = accused_parts(findings, undecided)
    nic_map = _nic_map(observed, explanation, accused)
    section = TableSection(
        anchor=f"{_ANCHOR}-flows",
        title="Search",
        facts=tuple(NamedValue(name, value) for name, value in _facts(search, observed)),
        topology=_end_map(observed, explanation, accused),
        warnings=(),
        configurations=(
            ConfigurationSection(
                anchor=f"{_ANCHOR}-parts",
                title="NICs and findings" if nic_map else "Findings",
                verdicts=(),
                pictures=(nic_map,) if nic_map else (),
                grid=_findings_table(findings),
            ),
        ),
        settings=(),
        environment=(),
    )
    coverage = f"{count_text(len(search.rounds), 'round')}, {count_text(len(observed), 'flow')}"
    log = LogSection(_ANCHOR, source, coverage, (section,), warnings=(), causes=(), refused=None, comparison=None)
    slow, unsure = Badge.of("SLOW"), Badge.of("UNSURE")
    counts = tuple((badge, len(found)) for badge, found in ((slow, findings), (unsure, undecided)) if found)
    lines = (
        *(SummaryLine(slow, one.text, section.anchor, (), one.says.removeprefix(one.text)) for one in findings),
        *(SummaryLine(unsure, "undecided", section.anchor, (), parts.says) for parts in undecided),
    )
    # Without a slow part, the command may have compared all flows with an expected rate.
    recorded = search.end.answer if search.end else "UNDECIDED: no slow part so far; the search did not end."
    first, *more = answers(findings, undecided) or [recorded]
    is_doubtful = not counts and first.startswith("UNDECIDED")
    return Page(
        title=title or source,
        headline=f"{first} And {len(more)} more." if more else first,
        badge=counts[0][0] if counts else Badge.of("UNSURE" if is_doubtful else "GOOD"),
        counts=counts,
        summary=(SummarySection(source, _ANCHOR, lines),),
        comparison=None,
        logs=(log,),
        warnings=(),
        version=__version__,
        is_redacted=is_redacted,
    )


def _end_map(observed: Observations, explanation: Explanation, accused: list[NamedPart]) -> Picture:
    """Draws the flows by the nodes at their ends. In a single node, by the GPUs."""
    paths = observed.paths
    is_of_gpus = len(paths.cluster.nodes) == 1
    if is_of_gpus:
        names = [f"GPU {gpu}" for gpu in range(len(paths.cluster.gpu_node))]
        rows, columns = paths.source, paths.target
    else:
        names = [node.name for node in paths.cluster.nodes]
        rows, columns = paths.source_node, paths.target_node
    used = _comparable(observed, explanation)
    return heat_grid(
        f"{'GPUs' if is_of_gpus else 'Nodes'}: from row to column",
        Flows(rows[used], columns[used], explanation.excess[used]),
        (names, names),
        [box for part in accused for box in _end_boxes(part, names, is_of_gpus=is_of_gpus)],
        _NOTE if is_of_gpus else f"{_NOTE} The diagonal is within nodes.",
    )


def _nic_map(observed: Observations, explanation: Explanation, accused: list[NamedPart]) -> Picture | None:
    """Draws the flows by the NICs that they cross. None without a flow through a NIC."""
    paths = observed.paths
    cluster = paths.cluster
    used = _comparable(observed, explanation) & (paths.source_nic != UNKNOWN) & (paths.target_nic != UNKNOWN)
    if not used.any():
        return None
    lanes, lane_of_nic = np.unique(cluster.lanes, return_inverse=True)
    nics = np.concatenate([paths.source_nic[used], paths.target_nic[used]])
    direction = np.repeat([0, 1], int(used.sum()))
    return heat_grid(
        "NICs: by rail and direction",
        Flows(2 * lane_of_nic[nics] + direction, cluster.nic_node[nics], np.tile(explanation.excess[used], 2)),
        ([f"{lane} {text}" for lane in lanes for text in ("send", "receive")], [node.name for node in cluster.nodes]),
        [box for part in accused for box in _nic_boxes(part, cluster, lane_of_nic.tolist())],
        _NOTE,
    )


def _comparable(observed: Observations, explanation: Explanation) -> NDArray[np.bool_]:
    """Returns True for each flow that has failed, or is slow only if a part is slow."""
    peers = explanation.peers
    is_free = peers.is_usable & (peers.slow_share < _MAX_SLOW_SHARE)
    return np.asarray(is_free[observed.classes] | observed.is_dead)


def _facts(search: RecordedSearch, observed: Observations) -> Iterator[tuple[str, str]]:
    cluster, header, end = search.cluster, search.header, search.end
    counts = ((cluster.nodes, "node"), (cluster.gpu_node, "GPU"), (cluster.nics, "NIC"))
    yield "cluster", ", ".join(count_text(len(parts), noun) for parts, noun in counts)
    yield "simulated", "yes" if header.simulated else "no"
    yield "failed flows", f"{int(observed.is_dead.sum()):,}"
    yield "command", " ".join(header.args)
    yield "program", f"busbw {header.busbw_version}, seed {header.seed}"
    yield "started", header.start_time
    if end is None:
        yield "complete", "no: the record has no end, so the search was killed or still runs"
    else:
        yield "complete", "yes" if end.result.get("complete") else f"no: {end.message or 'interrupted'}"


def _findings_table(findings: list[Finding]) -> DataTable | None:
    columns = ("slow-down", "10-90 %", "confidence", "slow flows", "exonerating flows")
    rows = tuple(
        (
            one.text,
            "transfers nothing" if one.slowdown is None else f"x{one.slowdown:.2f}",
            "" if one.slowdown_low is None else f"{one.slowdown_low:.2f} to {one.slowdown_high:.2f}",
            one.confidence_text,
            f"{one.flows:,}",
            f"{one.exonerating_flows:,}",
        )
        for one in findings
    )
    return (
        DataTable("Findings", (ColumnHead("part", is_number=False), *map(ColumnHead, columns)), rows) if rows else None
    )


def _end_boxes(part: NamedPart, names: list[str], *, is_of_gpus: bool) -> Iterator[Box]:
    """Yields the row and the column of a node or GPU, or the cells of a pair."""
    if is_of_gpus:
        ends = part.gpus or (() if part.gpu is None else (part.gpu,))
    else:
        nodes = part.nodes or ((part.node,) if part.node else ())
        ends = tuple(names.index(node) for node in nodes) * (2 if part.kind == "nvlink" else 1)
    if part.direction != "receive":
        yield from (Box(end, end, 0, len(names) - 1) for end in ends if len(ends) == 1)
        yield from (Box(ends[0], ends[0], ends[1], ends[1]) for _ in ends[1:])
    if part.direction != "send":
        yield from (Box(0, len(names) - 1, end, end) for end in ends if len(ends) == 1)
        yield from (Box(ends[1], ends[1], ends[0], ends[0]) for _ in ends[1:])


def _nic_boxes(part: NamedPart, cluster: Cluster, lane_of_nic: list[int]) -> Iterator[Box]:
    """Yields the cells of the NICs of a part. A field that does not apply to a part is None."""
    if part.kind in ("pair", "nvlink"):
        return
    for nic, port in enumerate(cluster.nics):
        node = int(cluster.nic_node[nic])
        stated = (part.node, part.nic, part.rail, part.leaf)
        names = (cluster.nodes[node].name, port.name, port.rail, port.leaf)
        is_crossed = all(field in (None, name) for field, name in zip(stated, names, strict=True))
        if is_crossed and (part.gpu is None or part.gpu in port.gpus):
            row = 2 * lane_of_nic[nic]
            yield Box(row + (part.direction == "receive"), row + (part.direction != "send"), node, node)
