"""Values that differ between the nodes of a job: one check for each entry of compared_values/values.toml."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from busbw.doctor.compared_values import ComparedValue, Items, NodeValues, compared_values
from busbw.doctor.model import Check, Evidence, Finding, Severity, Unreadable, require
from busbw.doctor.model.tree import COMMANDS, FACTS
from busbw.units import names_text, shorten

_MIN_MAJORITY = 3
"""Minimum number of equal nodes to name a node as different. Of two different nodes, either may be wrong."""
_MAX_NAMES, _MAX_LENGTH = 4, 160
"""Maximum number of node names, and of characters of a value, in a finding."""


def _examine(value: ComparedValue, severity: Severity, nodes: Sequence[NodeValues]) -> Iterator[Finding]:
    by_node = {node.node: node.values[value.check] for node in nodes if value.check in node.values}
    require(by_node, f"no node has a value of {value.title}")
    counts = Counter(by_node.values())
    usual, count = counts.most_common(1)[0]
    if count >= _MIN_MAJORITY and 2 * count > len(by_node):
        for node, own in by_node.items():
            if own != usual:
                yield _odd_node(value, severity, node, own, usual, f"{count} of {len(by_node)} nodes")
    elif len(counts) > 1:
        yield _disagreement(value, by_node)
    without_value = [node for node in nodes if node.node not in by_node]
    if without_value:
        missing = without_value[0].missing.get(value.check, f"a value of {value.title}")
        raise Unreadable(f"{missing} on {names_text([node.node for node in without_value], _MAX_NAMES)}")


def _odd_node(value: ComparedValue, severity: Severity, node: str, own: Items, usual: Items, majority: str) -> Finding:
    lacks, has = _without(usual, own), _without(own, usual)
    if lacks and has:
        problem = f"{majority} have {value.title} {_text(lacks)}; {node} has {_text(has)}"
    elif has:
        problem = f"{node} has {value.title} {_text(has)}, which {majority} lack"
    else:
        problem = f"{node} lacks {value.title} {_text(lacks)}, which {majority} have"
    evidence = Evidence(f"{node}: {_place(value)}", _text(own))
    return Finding(severity, problem, (evidence,), subject=node)


def _disagreement(value: ComparedValue, by_node: dict[str, Items]) -> Finding:
    groups: dict[Items, list[str]] = {}
    for node, own in by_node.items():
        groups.setdefault(own, []).append(node)
    shared = tuple(set.intersection(*map(set, groups)))
    texts = [f"{_text(_without(own, shared))} on {names_text(nodes, _MAX_NAMES)}" for own, nodes in groups.items()]
    return Finding(
        "risk",
        f"nodes differ in {value.title}: {'; '.join(texts)}",
        tuple(
            Evidence(f"{names_text(nodes, _MAX_NAMES)}: {_place(value)}", _text(own)) for own, nodes in groups.items()
        ),
    )


def _place(value: ComparedValue) -> str:
    """Returns the file, command or fact with a value, as users know it."""
    places = []
    for path in value.path.replace("{}", "*").split(" & "):
        is_file = not path.startswith((COMMANDS, FACTS))
        name = path.removeprefix(COMMANDS).removeprefix(FACTS)
        places.append(f"/{path}" if is_file else name.replace(".json#", ": "))
    return ", ".join(places)


def _without(items: Items, others: Items) -> Items:
    """Returns the items that `others` does not have."""
    return tuple(item for item in items if item not in others)


def _text(items: Items) -> str:
    return shorten(", ".join(items) or "none", _MAX_LENGTH)


CHECKS = tuple(
    Check(
        name=value.check,
        area="nodes",
        reads=_place(value),
        rule=f"All nodes have the same {value.title}.",
        source=group.source,
        cost=group.cost,
        fix=group.fix,
        examine=partial(_examine, value, group.severity),
    )
    for value, group in compared_values()
)
