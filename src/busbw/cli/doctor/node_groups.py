"""Groups equal findings of many nodes, so that a text shows each once with the names of its nodes."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET

from busbw.doctor.catalog import checks_of
from busbw.doctor.result import Missing, ReportedFinding, Result
from busbw.units import names_text

_MAX_NAMES = 4
Part = TypeVar("Part", ReportedFinding, Missing)


def grouped_by_node(parts: Sequence[Part], result: Result) -> Iterator[tuple[Part, str]]:
    """Yields the first of the parts that differ only in node and evidence, and a label that names their nodes."""
    groups: dict[bytes, list[Part]] = {}
    for part in parts:
        fields = msgspec.to_builtins(part)
        common = {name: value for name, value in fields.items() if name not in {"node", "evidence"}}
        groups.setdefault(msgspec.json.encode(common), []).append(part)
    differences = {check.name for check in checks_of("nodes")}
    node_count = len(result.nodes) if result.nodes is not UNSET else 1
    for group in groups.values():
        nodes = [part.node for part in group if isinstance(part.node, str)]
        if len(nodes) == node_count > 1:
            yield group[0], f"on all {node_count} nodes: "
        elif len(nodes) > 1:
            yield group[0], f"on {len(nodes)} of {node_count} nodes ({names_text(nodes, _MAX_NAMES)}): "
        elif nodes and group[0].check not in differences:
            yield group[0], f"{nodes[0]}: "
        else:
            yield group[0], ""  # the text of a difference names its node
