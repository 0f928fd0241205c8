"""Builds the page of a search (`busbw find`): findings and heat maps. The recorded flows are analyzed again for it.

A rail is the NICs at the same position of all nodes, and a leaf is a switch that NICs connect to. Flows collide if they
share an uplink of a leaf. A hub is a GPU that exchanges data with several others at once.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from busbw.find.cluster import UNKNOWN, Cluster
from busbw.find.explanation import Explanation, explain
from busbw.find.findings import Finding, UndecidedParts, answers, make_findings, suspected_parts
from busbw.find.naming import NamedPart
from busbw.find.observations import Observations, Values
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
from busbw.searches.recorded_search import RecordedSearch
from busbw.units import count_text

_ANCHOR = "search"
_MAX_SLOW_SHARE = 0.05
"""Maximum share of healthy flows that collisions slow down. With a larger share, a slow flow says little."""
_NOTE = "Median slow-down, relative to comparable flows. Flows of rounds with collisions on uplinks are left out."


def build_search(search: RecordedSearch, source: str, *, title: str | None = None, is_redacted: bool = False) -> Page:
    """Makes the page of a search. `source`: name of its record, which is the heading without a title."""
    observed = Observations(search.cluster, search.rounds, search.results)
    explanation = explain(observed)
    findings, undecided = _all_findings(search, observed, explanation)
    suspected = suspected_parts(findings, undecided)
    nic_map = _nic_map(observed, explanation, suspected)
    section = TableSection(
        anchor=f"{_ANCHOR}-flows",
        title="Search",
        facts=tuple(NamedValue(name, value) for name, value in _facts(search, observed)),
        picture=_end_map(observed, explanation, suspected),
        configurations=(
            ConfigurationSection(
                anchor=f"{_ANCHOR}-parts",
                title="NICs and findings" if nic_map else "Findings",
                pictures=(nic_map,) if nic_map else (),
                grid=_findings_table(findings),
            ),
        ),
    )
    flow_count = sum(len(flow_round.source) for flow_round in search.rounds)
    coverage = f"{count_text(len(search.rounds), 'round')}, {count_text(flow_count, 'flow')}"
    log = LogSection(_ANCHOR, source, coverage, (section,))
    result_counts = ((Badge.of("SLOW"), len(findings)), (Badge.of("UNSURE"), len(undecided)))
    counts = tuple((badge, count) for badge, count in result_counts if count)
    # Without findings, the answer is that of the record: only the command knew the expected rate of the flows.
    recorded_answer = search.end.answer if search.end else "UNDECIDED: no slow part so far; the search did not end."
    first_answer, *more = answers(findings, undecided) or [recorded_answer]
    if counts:
        badge, _ = counts[0]
    else:
        badge = Badge.of("UNSURE" if first_answer.startswith("UNDECIDED") else "GOOD")
    return Page(
        title=title or source,
        headline=f"{first_answer} And {len(more)} more." if more else first_answer,
        badge=badge,
        counts=counts,
        summary=(SummarySection(source, _ANCHOR, _summary_lines(findings, undecided, section.anchor)),),
        logs=(log,),
        is_redacted=is_redacted,
    )


def _summary_lines(
    findings: Sequence[Finding], undecided: Sequence[UndecidedParts], anchor: str
) -> tuple[SummaryLine, ...]:
    slow, unsure = Badge.of("SLOW"), Badge.of("UNSURE")
    finding_lines = [
        SummaryLine(slow, finding.text, anchor, (), finding.says.removeprefix(finding.text)) for finding in findings
    ]
    undecided_lines = [SummaryLine(unsure, "undecided", anchor, (), parts.says) for parts in undecided]
    return (*finding_lines, *undecided_lines)


def _all_findings(
    search: RecordedSearch, observed: Observations, explanation: Explanation
) -> tuple[list[Finding], list[UndecidedParts]]:
    """Returns the findings and the undecided parts from the flows, and those that only the end of the record states."""
    findings, undecided = make_findings(observed, explanation, search.cluster)
    result = search.end.result if search.end else {}
    # Flows of a lost part are not in the record.
    recorded_findings = msgspec.convert(result.get("findings", []), list[Finding])
    lost_findings = [finding for finding in recorded_findings if finding.lost]
    # An empty `between` means that all parts are slow, compared with the rated rate of the system. The flows alone do
    # not show this.
    recorded_undecided = msgspec.convert(result.get("undecided", []), list[UndecidedParts])
    all_slow = [parts for parts in recorded_undecided if not parts.between]
    return [*lost_findings, *findings], [*undecided, *all_slow]


def _end_map(observed: Observations, explanation: Explanation, suspected: list[NamedPart]) -> Picture:
    """Draws the flows by the nodes at their ends. In a single node, by the GPUs."""
    paths = observed.paths
    is_of_gpus = len(paths.cluster.nodes) == 1
    if is_of_gpus:
        names = [f"GPU {gpu}" for gpu in range(len(paths.cluster.gpu_node))]
        rows, columns, diagonal = paths.source, paths.target, "a GPU with several others at once"
    else:
        names = [node.name for node in paths.cluster.nodes]
        rows, columns, diagonal = paths.source_node, paths.target_node, "within nodes"
    is_shown = _shown_mask(observed, explanation)
    has_diagonal = not is_of_gpus or bool(paths.is_hub.any())
    return heat_grid(
        f"{'GPUs' if is_of_gpus else 'Nodes'}: from row to column",
        Flows(rows[is_shown], columns[is_shown], _log_slowdown(observed, explanation)[is_shown]),
        (names, names),
        [box for part in suspected for box in _end_boxes(part, names, is_of_gpus=is_of_gpus)],
        f"{_NOTE} The diagonal is {diagonal}." if has_diagonal else _NOTE,
    )


def _nic_map(observed: Observations, explanation: Explanation, suspected: list[NamedPart]) -> Picture | None:
    """Draws the flows by the NICs that they cross. None without a flow through a NIC."""
    paths = observed.paths
    cluster = paths.cluster
    crosses_nics = (paths.source_nic != UNKNOWN) & (paths.target_nic != UNKNOWN)
    is_shown = _shown_mask(observed, explanation) & crosses_nics
    if not is_shown.any():
        return None
    rails, rail_index_of_nic = np.unique(cluster.lanes, return_inverse=True)
    # Each flow is drawn twice: at the NIC that sends it, and at the NIC that receives it.
    nics = np.concatenate([paths.source_nic[is_shown], paths.target_nic[is_shown]])
    is_receiving = np.repeat([0, 1], int(is_shown.sum()))
    return heat_grid(
        "NICs: by rail and direction",
        Flows(
            2 * rail_index_of_nic[nics] + is_receiving,  # a rail has two rows: send, then receive
            cluster.nic_node[nics],
            np.tile(_log_slowdown(observed, explanation)[is_shown], 2),
        ),
        ([f"{rail} {text}" for rail in rails for text in ("send", "receive")], [node.name for node in cluster.nodes]),
        [box for part in suspected for box in _nic_boxes(part, cluster, rail_index_of_nic.tolist())],
        _NOTE,
    )


def _log_slowdown(observed: Observations, explanation: Explanation) -> Values:
    """Returns the log of the slow-down of each flow against comparable flows. Infinite if the flow failed."""
    return np.where(observed.is_dead, np.inf, explanation.excess)


def _shown_mask(observed: Observations, explanation: Explanation) -> NDArray[np.bool_]:
    """Returns a mask of the flows that heat maps show: failed flows, and flows that collisions rarely slow down."""
    peers = explanation.peers
    has_rare_collisions = peers.is_usable & (peers.slow_share < _MAX_SLOW_SHARE)  # for each class of comparable flows
    return np.asarray(has_rare_collisions[observed.classes] | observed.is_dead)


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
    if not findings:
        return None
    number_columns = ("slow-down", "10-90 %", "confidence", "slow flows", "exonerating flows")
    rows = tuple(
        (
            finding.text,
            "transfers nothing" if finding.slowdown is None else f"x{finding.slowdown:.2f}",
            "" if finding.slowdown_low is None else f"{finding.slowdown_low:.2f} to {finding.slowdown_high:.2f}",
            finding.confidence_text,
            f"{finding.flows:,}",
            f"{finding.exonerating_flows:,}",
        )
        for finding in findings
    )
    return DataTable("Findings", (ColumnHead("part", is_number=False), *map(ColumnHead, number_columns)), rows)


def _end_boxes(part: NamedPart, names: list[str], *, is_of_gpus: bool) -> Iterator[Box]:
    """Yields the row (sends) and the column (receives) of a node or GPU, or the two cells of a pair."""
    ends = _gpu_ends(part) if is_of_gpus else _node_ends(part, names)
    if not ends:
        return
    if len(ends) == 1:
        end, last = ends[0], len(names) - 1
        sending, receiving = Box(end, end, 0, last), Box(0, last, end, end)
    else:
        first, second = ends[0], ends[1]
        sending, receiving = Box(first, first, second, second), Box(second, second, first, first)
    if part.direction != "receive":
        yield sending
    if part.direction != "send":
        yield receiving


def _gpu_ends(part: NamedPart) -> tuple[int, ...]:
    """Returns the number of the GPU of a part, or of both GPUs of a pair. Empty if the part has none."""
    if part.gpus:
        return part.gpus
    return () if part.gpu is None else (part.gpu,)


def _node_ends(part: NamedPart, names: list[str]) -> tuple[int, ...]:
    """Returns the index of the node of a part, or of both nodes of a pair. NVLinks join a node with itself."""
    nodes = part.nodes or ((part.node,) if part.node else ())
    ends = tuple(names.index(node) for node in nodes)
    return ends * 2 if part.kind == "nvlink" else ends


def _nic_boxes(part: NamedPart, cluster: Cluster, rail_index_of_nic: list[int]) -> Iterator[Box]:
    """Yields the cells of the NICs of a part. A field that does not apply to a part is None.

    A NIC has two rows: the first for sending, the second for receiving.
    """
    if part.kind in ("pair", "nvlink"):
        return
    for nic, port in enumerate(cluster.nics):
        node = int(cluster.nic_node[nic])
        part_names = (part.node, part.nic, part.rail, part.leaf)
        nic_names = (cluster.nodes[node].name, port.name, port.rail, port.leaf)
        belongs_to_part = all(name in (None, nic_name) for name, nic_name in zip(part_names, nic_names, strict=True))
        if belongs_to_part and (part.gpu is None or part.gpu in port.gpus):
            send_row = 2 * rail_index_of_nic[nic]
            receive_row = send_row + 1
            first_row = receive_row if part.direction == "receive" else send_row
            last_row = send_row if part.direction == "send" else receive_row
            yield Box(first_row, last_row, node, node)
