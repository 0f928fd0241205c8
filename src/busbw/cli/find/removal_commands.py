"""Commands that remove the nodes of findings from service. busbw prints them and never runs them."""

import shlex
from collections.abc import Iterable, Iterator

from busbw.find.findings import Finding
from busbw.launchers.job.hosts import is_address


def removal_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yields the commands for Slurm and for Kubernetes for each node of the findings, with the findings as the reason.

    Pairs of nodes and parts of the network have no node that could be removed.
    """
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        if finding.node is not None:
            reasons.setdefault(finding.node, []).append(finding.text)
    for node, texts in reasons.items():
        # scontrol expands brackets and commas, and a dash begins an option.
        if not is_address(node) or "[" in node:
            yield f"Remove node {shlex.quote(node)} by hand: its name is not a host name."
            continue
        yield f"To remove {node} from service, with Slurm or Kubernetes:"
        yield f"    scontrol update NodeName={node} State=DRAIN Reason={shlex.quote('busbw find: ' + ', '.join(texts))}"
        yield f"    kubectl cordon {node}"
