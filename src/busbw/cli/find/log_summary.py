"""Result of `busbw find --logs`: nodes that are in slow runs more often than chance allows."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import click

from busbw.cli.find.exports import EXPORTS
from busbw.cli.find.find_options import FindOptions
from busbw.cli.find.group_logs import read_group_runs
from busbw.cli.find.summary import (
    FindSummary,
    answer_lines,
    power_lines,
    print_plain,
    result_exit_code,
    unsuspected_nodes,
)
from busbw.cli.options.export_options import write_exports
from busbw.errors import BusbwError
from busbw.find.group_runs import MIN_RUNS, GroupRuns, find_slow_nodes, run_power
from busbw.support.json_output import json_object
from busbw.terminal import activity
from busbw.units import count_text, names_text, plain, shorten

_MAX_NOTES, _MAX_NODES = 10, 16
"""Maximum numbers of printed notes and of named nodes."""


class LogSummary(FindSummary, frozen=True, kw_only=True):
    """Slow nodes of existing runs. The field names are keys of `--json`."""

    unit: ClassVar[str] = "run"
    runs: int
    """Number of comparable runs."""
    unexplained_runs: int
    """Number of slow runs that no finding and no undecided node explains."""
    not_covered: list[str]
    """Nodes of the logs without evidence. Too few comparable runs ran on other nodes."""
    notes: list[str]
    """One sentence for each log or run that was not used, with the reason."""


def search_logs(options: FindOptions) -> int:
    """Prints the slow nodes of existing runs, and returns the exit code.

    Raises:
        UsageError: A named log cannot be read.
        BusbwError: No run has comparable runs.
    """
    summary = summarize_logs(options.logs)
    if not options.as_json:
        print_plain(_lines(summary))
    write_exports(EXPORTS, summary, options.exports)
    if options.as_json:
        click.echo(json_object(summary))
    return result_exit_code(summary)


def summarize_logs(names: Sequence[str]) -> LogSummary:
    """Reads logs and returns the slow nodes.

    Raises:
        UsageError: A named log cannot be read.
        BusbwError: No run has comparable runs.
    """
    notes: list[str] = []
    with activity("reading logs"):
        named_runs = list(read_group_runs(names, notes))
        runs = GroupRuns([run for _, run in named_runs])
        sources = zip(named_runs, runs.is_compared, strict=True)
        notes += [f"{name}: fewer than {MIN_RUNS} comparable runs." for (name, _), is_used in sources if not is_used]
    if not runs.is_usable.any():
        for note in notes:
            click.echo(shorten(plain(note)), err=True)
        raise BusbwError(
            "no run shows which node is slow",
            remedy=f"give {MIN_RUNS} or more runs of one configuration on different nodes, with their hosts",
        )
    with activity("comparing runs"):
        search = find_slow_nodes(runs)
    return LogSummary(
        findings=sorted(search.findings, key=lambda finding: -(finding.slowdown or 0)),
        undecided=search.undecided,
        healthy=not search.findings and not search.undecided,
        power=[run_power(runs, search.comparison)],
        unsuspected_nodes=unsuspected_nodes(runs.nodes, search.findings, search.undecided),
        rounds=None,
        measured_s=None,
        complete=True,
        runs=int(runs.is_compared.sum()),
        unexplained_runs=int((search.comparison.is_slow & search.comparison.is_peer).sum()),
        # Rows of `is_usable` are nodes, columns are runs.
        not_covered=[name for name, is_usable in zip(runs.nodes, runs.is_usable, strict=True) if not is_usable.any()],
        notes=notes,
    )


def _lines(summary: LogSummary) -> Iterator[str]:
    yield from answer_lines(summary, cost_of=lambda _finding: "")
    if summary.healthy:
        yield "HEALTHY: no node is in slow runs more often than chance allows."
    if summary.not_covered:
        yield f"Not covered by comparable runs: {names_text(summary.not_covered, _MAX_NODES)}."
    yield from power_lines(summary)
    slow_runs = count_text(summary.unexplained_runs, "slow run")
    yield f"Compared: {count_text(summary.runs, 'run')}; {slow_runs} without a known cause."
    yield from summary.notes[:_MAX_NOTES]
    if len(summary.notes) > _MAX_NOTES:
        yield f"{len(summary.notes) - _MAX_NOTES:,} more logs or runs were not used; --json has the reasons."
