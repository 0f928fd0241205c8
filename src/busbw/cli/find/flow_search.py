"""Runs a search that measures flows: with progress, a record, and the result of the rounds before an interrupt."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import click
import msgspec

from busbw.cli.find.exports import EXPORTS
from busbw.cli.find.find_options import FindOptions
from busbw.cli.find.search_destination import keep_flows
from busbw.cli.find.sources import open_measurer
from busbw.cli.find.summary import SearchSummary, print_plain, result_exit_code, summarize, summary_lines
from busbw.cli.interrupts import checked_interrupts
from busbw.cli.options.export_options import write_exports
from busbw.cli.options.system_option import find_system
from busbw.engine import LOST_HOSTS_VARIABLE
from busbw.errors import BusbwError, interrupt_exit_code
from busbw.find.cluster import Cluster
from busbw.find.measurer import Measurer
from busbw.find.search import Search
from busbw.launchers.machine_types.named_system import named_system
from busbw.network_topology.leaves import Attachment, with_leaves
from busbw.network_topology.topology_file import read_attachments
from busbw.support.json_output import json_object
from busbw.system import System
from busbw.terminal import live_line
from busbw.terminal.progress import duration_text
from busbw.units import names_text, plain

_SHOW_PROGRESS_AFTER_S = 2.0
_PLAIN_INTERVAL_S = 10.0
"""Time between lines of progress if stderr is no terminal, as in a job."""
_MAX_NAMES = 3
"""Maximum number of nodes without a leaf switch that a message names."""
_SIMULATED_SYSTEM = "h100-sxm"
"""System with the links of the simulated cluster: NICs of 400 Gb/s and NVLink 4."""


def search_flows(options: FindOptions) -> int:
    """Measures flows, prints and keeps the result, and returns the exit code.

    Raises:
        BusbwError: No round could be measured. Or an error ended a search without a lost part, or the record could not
            be ended; in these two cases, the result so far is printed first.
    """
    system = _system(options)
    attachments = read_attachments(options.topology) if options.topology is not None else []
    # The record ends after the measurer and after the exports, so that its path is the last line.
    with checked_interrupts() as check_interrupt, ExitStack() as record_context:
        with open_measurer(options, check_interrupt) as measurer:
            if options.topology is not None:
                _add_leaf_switches(measurer, attachments, options.topology)
            search = Search(
                measurer=measurer,
                seed=options.seed,
                measures_all_pairs=options.pairs,
                max_rounds=options.max_rounds,
                size_bytes=options.size_bytes,
                lost_nodes=_lost_hosts() if options.is_in_job else {},
            )
            on_end = record_context.enter_context(keep_flows(search, options))
            early_end = _run(search, check_interrupt)
            search_error = early_end if isinstance(early_end, BusbwError) else None
            # `failure` is raised at the end. A lost part is an answer, so its error is only printed.
            failure = None if search.lost else search_error
            # In a job, this process may be ended as soon as the measuring program ends. So the result is computed and
            # recorded within the context of the measurer.
            summary = summarize(search, system, is_simulated=options.is_simulated, ended_early=early_end is not None)
            exit_code = _exit_code(summary, early_end, failure)
            try:
                on_end(summary, exit_code, search_error)
            except BusbwError as record_error:
                failure = failure or record_error
            if not options.as_json:
                print_plain(summary_lines(summary, search, system))
        write_exports(EXPORTS, summary, options.exports)
        if options.as_json or options.also_json:
            click.echo(json_object(summary))
    if failure:
        raise failure
    if search_error:
        click.echo(f"busbw find: {search_error}", err=True)
    return exit_code


def _add_leaf_switches(measurer: Measurer, attachments: Sequence[Attachment], path: Path) -> None:
    """Adds the leaf switches of a file to the cluster. Names on stderr the nodes with a NIC without one."""
    nodes = with_leaves(measurer.cluster.nodes, attachments, str(path))
    measurer.cluster = Cluster(nodes)
    unknown = [node.name for node in nodes if any(nic.leaf is None for nic in node.nics)]
    if unknown:
        click.echo(plain(f"{path} lacks leaf switches of {names_text(unknown, _MAX_NAMES)}"), err=True)


def _exit_code(
    summary: SearchSummary, early_end: BusbwError | KeyboardInterrupt | None, failure: BusbwError | None
) -> int:
    if isinstance(early_end, KeyboardInterrupt):
        return interrupt_exit_code(early_end)
    if failure:
        return failure.exit_code
    return result_exit_code(summary)


def _lost_hosts() -> dict[str, str]:
    """Returns the hosts that the launcher of this job left out, with the reason of each."""
    return msgspec.json.decode(os.environ.get(LOST_HOSTS_VARIABLE) or "{}", type=dict[str, str])


def _system(options: FindOptions) -> System | None:
    """Returns the system with the expected rates. None if the system is unknown."""
    if options.system_name is not None:
        return named_system(options.system_name)
    if options.is_simulated:
        return named_system(_SIMULATED_SYSTEM)
    measures_own_gpus = options.program is None and not options.is_in_job and options.backend != "host"
    return find_system("here") if measures_own_gpus else None


def _run(search: Search, check_interrupt: Callable[[], None]) -> BusbwError | KeyboardInterrupt | None:
    """Runs a search with its progress. Returns the reason of an early end. None if the search was complete.

    Raises:
        BusbwError: No round could be measured.
        KeyboardInterrupt: A signal came before the first round.
    """
    with live_line(plain_interval_s=_PLAIN_INTERVAL_S) as draw:
        start_s = monotonic()

        def show(done: int, planned: int) -> None:
            check_interrupt()
            spent_s = monotonic() - start_s
            if spent_s > _SHOW_PROGRESS_AFTER_S and done:
                left_s = spent_s / done * (planned - done)
                draw(f"measuring: round {done + 1} of {planned}, {duration_text(left_s)} left")

        search.on_progress = show
        try:
            search.run()
        except (BusbwError, KeyboardInterrupt) as reason:
            if not search.rounds:
                raise
            return reason
    return None
