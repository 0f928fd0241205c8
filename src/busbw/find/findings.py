"""Findings of a search by the names of the cluster, with the flows that support them and the next step."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from busbw.find.cluster import Cluster, Mask
from busbw.find.evidence import MIN_SLOW_ITERATION
from busbw.find.explanation import Culprit, Explanation, is_evidence
from busbw.find.naming import NamedPart, name_part
from busbw.find.observations import Observations
from busbw.find.parts import Kind, Part, flows_of, in_both_directions, is_synonym, ports_of
from busbw.units import count_text

MAX_CONFIDENCE = 0.9999
"""Maximum of a stated confidence, because the model of the noise is not exact."""
_BAD_PORTS = "the GPU loses much more speed with several partners than with one; some links or switch ports may be down"
_FULL_SPEED_EXCESS = 0.06
"""Excess, in log time, up to which a flow clears the parts on its path."""


class Finding(NamedPart, frozen=True, kw_only=True, omit_defaults=True):
    """A slow part."""

    slowdown: float | None
    """Time of the flows of the part relative to comparable flows. None if the part is dead."""
    slowdown_low: float | None = None
    """10th percentile over the flows of the part."""
    slowdown_high: float | None = None
    """90th percentile over the flows of the part."""
    confidence: float
    flows: int
    """Number of slow flows that support the finding."""
    exonerating_flows: int
    """Number of flows at full speed that use a GPU of these slow flows, but do not cross the part."""
    dead: bool = False
    """True if the part transfers nothing."""
    lost: bool = False
    """True if the part is dead because its processes do not answer. No flow supports such a finding."""
    intermittent: bool = False
    slow_share: float | None = None
    """Share of slow iterations of the flows of the part, if the part is intermittent."""
    cause: str | None = None
    """Likely cause that the flows or the NUMA nodes of the hardware suggest. None: no cause is known."""
    same_as: tuple[NamedPart, ...] = ()
    """Other parts with the same flows. For example, a rail and its only leaf switch have the same flows."""
    says: str
    """The finding in one sentence: "CLAIM; EVIDENCE"."""

    @property
    def answer(self) -> str:
        """The finding as a sentence without the evidence."""
        claim, _, _ = self.says.partition("; ")
        return f"{'LOST' if self.lost else 'SLOW'}: {claim}."

    @property
    def evidence(self) -> str:
        """The figures or the reason that support the finding, as a clause."""
        _, _, evidence = self.says.partition("; ")
        return evidence

    @property
    def confidence_text(self) -> str:
        """Confidence in percent, rounded down."""
        return f"{np.floor(self.confidence * 1000) / 10:.1f} %"


class UndecidedParts(Struct, frozen=True, kw_only=True):
    """Parts that explain the same slow flows equally well, or a question without a part."""

    between: tuple[NamedPart, ...]
    """The candidates. Empty if the typical flow is slow, or if too few parts were measured for a comparison."""
    slowdown: float | None
    says: str
    """The open question, and the measurement that answers it."""


def make_findings(
    observed: Observations, explanation: Explanation, cluster: Cluster
) -> tuple[list[Finding], list[UndecidedParts]]:
    """Returns the slow parts, the slowest first, and the parts that could not be told apart."""
    findings: list[Finding] = []
    undecided: list[UndecidedParts] = []
    # Two NICs that are slow together: neither gets a finding of its own, because one port may carry both.
    nic_pairs = [culprit for culprit in explanation.culprits if culprit.part.kind == "nic" and culprit.part.is_between]
    undecided += [_undecided_nics(culprit, observed, cluster) for culprit in nic_pairs]
    nics = [nic for culprit in nic_pairs for nic in ports_of(culprit.part, cluster)]
    undecided_hardware = {part.hardware for part in (*nics, *(culprit.part for culprit in nic_pairs))}
    leaves_of_pairs = {int(cluster.nic_leaf[nic.number]) for nic in nics}
    culprits_by_hardware: dict[object, list[Culprit]] = {}
    for culprit in explanation.culprits:
        culprits_by_hardware.setdefault(culprit.part.hardware, []).append(culprit)
    for hardware, group in culprits_by_hardware.items():
        culprit = group[0]
        if hardware in undecided_hardware:
            continue
        if culprit.part.kind in ("uplink", "leaf") and culprit.part.number in leaves_of_pairs:
            continue  # the traffic of both NICs through one port loads the uplinks of its leaf
        rivals: dict[object, Part] = {}
        for part in culprit.close_rivals:
            rivals.setdefault(part.hardware, part)
        synonyms = [part for part in rivals.values() if is_synonym(part, culprit.part, cluster)]
        if len(synonyms) < len(rivals):  # another part explains the flows, and other flows could tell it apart
            undecided.append(_undecided([culprit.part, *rivals.values()], culprit, cluster))
        else:
            findings.append(_finding(group, synonyms, observed, explanation, cluster))
    slowest_first = sorted(findings, key=lambda one: -np.inf if one.slowdown is None else -one.slowdown)
    return slowest_first, undecided


def lost_findings(lost: Mapping[int, str], cluster: Cluster, lost_nodes: Mapping[str, str]) -> list[Finding]:
    """Returns a finding for each node without an answering GPU, and for each lost GPU of the other nodes.

    Args:
        lost: GPUs that do not answer, with the reason of each.
        cluster: The cluster.
        lost_nodes: Further nodes, on which nothing could start, with the reason of each.
    """
    findings = []
    for name, reason in lost_nodes.items():
        part = NamedPart(kind="node", node=name)
        findings.append(_lost_finding(part, f"{part.text} cannot take part; {reason}"))
    for node in dict.fromkeys(int(cluster.gpu_node[gpu]) for gpu in sorted(lost)):
        gpus = [gpu for gpu in sorted(lost) if cluster.gpu_node[gpu] == node]
        name = cluster.nodes[node].name
        if len(gpus) == cluster.node_gpus[node]:
            part = NamedPart(kind="node", node=name)
            findings.append(_lost_finding(part, f"{part.text} does not answer; {lost[gpus[0]]}"))
            continue
        for gpu in gpus:
            part = NamedPart(kind="gpu", node=name, gpu=cluster.gpu_name(gpu)[1])
            findings.append(_lost_finding(part, f"{part.text} does not answer; {lost[gpu]}"))
    return findings


def _lost_finding(part: NamedPart, says: str) -> Finding:
    return Finding(
        **asdict(part),
        slowdown=None,
        confidence=1.0,
        flows=0,
        exonerating_flows=0,
        dead=True,
        lost=True,
        says=says,
    )


def suspected_parts(findings: Iterable[NamedPart], undecided: Iterable[UndecidedParts]) -> list[NamedPart]:
    """Returns the parts of all findings, and all parts that could not be told apart."""
    return [*findings, *(part for one in undecided for part in one.between)]


def answers(findings: Sequence[Finding], undecided: Sequence[UndecidedParts]) -> list[str]:
    """Returns the answer of a search in one sentence per finding, without the evidence. Empty if nothing is slow."""
    slow = [finding.answer for finding in findings]
    open_questions = [f"UNDECIDED: {parts.says}" for parts in undecided]
    return [*slow, *open_questions]


def _undecided_nics(culprit: Culprit, observed: Observations, cluster: Cluster) -> UndecidedParts:
    """Returns the two NICs of a culprit, which are slow together, and the NICs of its rivals.

    If one of both NICs was also busy alone, one port carries the traffic of both. Otherwise both may be slow.
    """
    pairs = [culprit.part, *(part for part in culprit.close_rivals if part.kind == "nic" and part.is_between)]
    named = [[name_part(nic, cluster) for nic in ports_of(pair, cluster)] for pair in pairs]
    names = ", or ".join(" and ".join(nic.text for nic in nics) for nics in named)
    slowdown = round(float(np.exp(culprit.excess)), 3)
    crosses_a_nic = np.logical_or.reduce([flows_of(nic, observed.paths) for nic in ports_of(culprit.part, cluster)])
    was_one_alone = bool((crosses_a_nic & ~flows_of(culprit.part, observed.paths)).any())
    reason = (
        "only if both are busy, so one carries the traffic of both"
        if was_one_alone
        else "and always busy together: both are slow, or one carries the traffic of both"
    )
    return UndecidedParts(
        between=tuple(nic for nics in named for nic in nics),
        slowdown=slowdown,
        says=f"{names} are slow by {slowdown:.2f} {reason}. "
        "Read the link state of these ports to see which one has failed.",
    )


def _finding(
    group: list[Culprit], synonyms: list[Part], observed: Observations, explanation: Explanation, cluster: Cluster
) -> Finding:
    """Returns the finding for one piece of hardware. `group`: its culprits, one for each slow direction."""
    worst = max(group, key=lambda culprit: culprit.excess)
    crossing = np.logical_or.reduce([flows_of(culprit.part, observed.paths) for culprit in group])
    is_slowed = np.isin(np.arange(len(observed)), np.concatenate([culprit.flows for culprit in group]))
    has_one_direction = len({culprit.part.direction for culprit in group}) == 1 and not worst.has_open_direction
    named = name_part(worst.part if has_one_direction else in_both_directions(worst.part), cluster)
    is_intermittent = worst.share is not None
    if is_intermittent:
        is_slow = _has_slow_iterations(observed, explanation)
    else:
        is_slow = explanation.excess > max(_FULL_SPEED_EXCESS, worst.excess / 2)
    support = is_slowed & is_slow & is_evidence(observed, explanation.peers)
    low = high = None
    if not worst.is_dead and not is_intermittent and support.any():
        low, high = (round(float(one), 3) for one in np.exp(np.quantile(explanation.excess[support], [0.1, 0.9])))
    finding = Finding(
        **asdict(named),
        slowdown=None if worst.is_dead else round(float(np.exp(worst.excess)), 3),
        slowdown_low=low,
        slowdown_high=high,
        confidence=min(round(min(culprit.confidence(synonyms) for culprit in group), 4), MAX_CONFIDENCE),
        flows=int(support.sum()),
        exonerating_flows=_count_exonerating(observed, explanation, crossing, support),
        dead=worst.is_dead,
        intermittent=is_intermittent,
        slow_share=None if worst.share is None else round(worst.share, 3),
        cause=_BAD_PORTS if worst.part.needs_hub else _far_gpu_cause(worst.part, cluster),
        same_as=tuple(name_part(part, cluster) for part in synonyms),
        says="",
    )
    are_some_fast = bool((crossing & ~is_slowed).any())
    return replace(finding, says=_sentence(finding, are_some_fast=are_some_fast, needs_hub=worst.part.needs_hub))


def _far_gpu_cause(part: Part, cluster: Cluster) -> str | None:
    """Returns the cause if the part is a NIC on another NUMA node than one of its GPUs. Otherwise returns None."""
    if part.kind != "nic" or part.is_between:
        return None
    nic = cluster.nics[part.number]
    numa_by_gpu = cluster.nodes[int(cluster.nic_node[part.number])].gpu_numa
    if not numa_by_gpu or nic.numa is None:
        return None
    for gpu in nic.gpus:
        gpu_numa = numa_by_gpu[gpu]
        if gpu_numa is not None and gpu_numa != nic.numa:
            return (
                f"GPU {gpu} is on NUMA node {gpu_numa} and the NIC on NUMA node {nic.numa}, so data crosses the "
                "link between processors; compare with busbw topo"
            )
    return None


def _has_slow_iterations(observed: Observations, explanation: Explanation) -> Mask:
    """Returns True for each flow with a slow iteration."""
    excess = observed.iterations - explanation.peers.reference[:, None]
    with np.errstate(invalid="ignore"):
        return np.asarray((excess > MIN_SLOW_ITERATION).any(axis=1))


def _count_exonerating(observed: Observations, explanation: Explanation, crossing: Mask, support: Mask) -> int:
    """Returns the number of fast flows that use a GPU of the supporting flows, but do not cross the part."""
    paths = observed.paths
    gpus = np.unique(np.concatenate([paths.source[support], paths.target[support]]))
    uses_gpu = np.isin(paths.source, gpus) | np.isin(paths.target, gpus)
    is_fast = ~paths.is_hub & (explanation.excess < _FULL_SPEED_EXCESS)  # hubs do not show the full speed of a part
    return int((uses_gpu & ~crossing & is_fast).sum())


def _sentence(finding: Finding, *, are_some_fast: bool, needs_hub: bool) -> str:
    """Returns the finding as text.

    Args:
        finding: The finding.
        are_some_fast: True if some flows that cross the part are fast, because only one of its hashed links is slow.
        needs_hub: True if the links of a GPU are slow only with several GPUs at once.
    """
    support = count_text(finding.flows, "flow supports it", "flows support it")
    exonerated = count_text(finding.exonerating_flows, "flow exonerates", "flows exonerate")
    evidence = f"confidence {finding.confidence_text}, {support}, {exonerated} the other parts on their paths"
    effect = _effect(finding, finding.slowdown)
    if needs_hub:
        effect += " with several GPUs of the node at once"
    if finding.slowdown is None:
        return f"{finding.text} {effect}; {evidence}"
    if finding.slow_share is not None:
        verb = "are" if finding.is_plural else "is"
        effect = f"{verb} slow in {finding.slow_share:.0%} of the iterations, then {effect}"
    elif finding.slowdown_low is not None:
        effect += f" (10-90 %: {finding.slowdown_low:.2f} to {finding.slowdown_high:.2f})"
    if are_some_fast:
        effect += " on some connections"
    return f"{finding.text} {effect}; {evidence}"


def _effect(part: NamedPart, slowdown: float | None) -> str:
    """Returns the effect of a part, as the predicate of a sentence about it."""
    verb_ending, owner = ("", "their") if part.is_plural else ("s", "its")
    if slowdown is None:
        return f"transfer{verb_ending} nothing"
    return f"take{verb_ending} {slowdown:.2f} times the time of {owner} peers"


_DECIDING_MEASUREMENT: dict[frozenset[Kind], str] = {
    frozenset({"gpu", "nic"}): "Send from the same GPU through another NIC, and from another GPU through this NIC.",
    frozenset({"nic", "numa"}): "Measure the other NICs of the NUMA node, one at a time.",
    frozenset({"nic", "node"}): "Measure the other NICs of the node, one at a time.",
    frozenset({"gpu", "node"}): "Measure the other GPUs of the node, one at a time.",
    frozenset({"nic", "pair"}): "Measure both NICs with a third node.",
    frozenset({"node", "pair"}): "Measure both nodes with a third node.",
    frozenset({"node"}): "Measure both nodes with a third node.",
    frozenset({"nic"}): "Measure each of the NICs alone with a NIC that is at full speed.",
    frozenset({"uplink"}): "Measure flows to a third leaf, with one flow per leaf.",
    frozenset({"uplink", "leaf"}): "Measure flows within the leaf switch.",
}
"""Measurement that tells parts of these kinds apart."""


def _undecided(parts: list[Part], culprit: Culprit, cluster: Cluster) -> UndecidedParts:
    """Returns the culprit and its rivals, with the measurement that tells them apart."""
    between = tuple(dict.fromkeys(name_part(part, cluster) for part in parts))
    kinds: frozenset[Kind] = frozenset(part.kind for part in between)
    step = _DECIDING_MEASUREMENT.get(kinds, "Measure flows that cross only one of these parts.")
    slowdown = None if culprit.is_dead else round(float(np.exp(culprit.excess)), 3)
    names = " or ".join(part.text for part in between)
    effect = _effect(between[-1], slowdown)  # the verb agrees with the last name
    return UndecidedParts(between=between, slowdown=slowdown, says=f"{names} {effect}. {step}")
