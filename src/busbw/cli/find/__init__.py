"""`busbw find`: locates the slow GPU, NVLink, NIC, node, pair, rail, leaf switch or uplink of a cluster."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import click

from busbw.cli.find.export_options import export_options, write_exports
from busbw.cli.find.launched import SearchGroup, refuse_options_before
from busbw.cli.find.log_summary import print_log_summary, summarize_logs
from busbw.cli.find.search_destination import keep_flows
from busbw.cli.find.summary import FindSummary, print_summary, summarize
from busbw.cli.find.this_machine import flows_command
from busbw.cli.find.topology_option import complete_cluster, topology_option
from busbw.cli.interrupts import checked_interrupts
from busbw.cli.options.command_words import split_command
from busbw.cli.options.completion import complete_log
from busbw.cli.options.json_option import json_option
from busbw.cli.options.param_types import Seconds, Size
from busbw.cli.options.run_destination import destination_options
from busbw.errors import UNDECIDED, BusbwError, ExitCode, UsageError, interrupt_exit_code
from busbw.find.measurer import Measurer
from busbw.find.search import Search, SearchProgress
from busbw.json_output import json_object
from busbw.launchers import LAUNCHERS
from busbw.launchers.machine_types.named_system import named_system
from busbw.measuring_program import MeasuringProgram
from busbw.network_topology.topology_file import read_attachments
from busbw.program_pipes import ProgramPipes, StartedProgram
from busbw.simulator.fabric import DEFAULT_NODES_PER_GROUP, Fabric, parse_shape
from busbw.simulator.faults import FORMS, parse_fault
from busbw.terminal import live_line
from busbw.terminal.progress import duration_text

_SHOW_PROGRESS_AFTER_S = 2.0
_PLAIN_INTERVAL_S = 10.0
"""Time between lines of progress if stderr is no terminal, such as that of a job."""
_DEFAULT_SYSTEM = "h100-sxm"
"""System that a simulated cluster resembles: its rates are those of 400 Gb/s and NVLink 4."""


@click.group(
    cls=SearchGroup,
    package="busbw.cli.launch",
    sections={"Launchers": LAUNCHERS},
    invoke_without_command=True,
    subcommand_metavar="[LAUNCHER [OPTIONS]]",
    epilog="Try: busbw find --simulate 16x8 --fault nic:3/5:2.0, or on a cluster: busbw find slurm -N 128 -p gpu. "
    f"KIND:WHERE is one of {', '.join(f'{kind}:{form}' for kind, form in FORMS.items())}, counted from 0. "
    "SLOWDOWN is a ratio of times above 1, or dead; 2.0@0.2 is slow in a fifth of the iterations. "
    "Exit codes: 0 healthy, 5 found, 6 undecided, 3 could not measure.",
)
@click.option("--simulate", "shape", metavar="NODESxGPUS", help="Search in a simulated cluster, such as 128x8.")
@click.option(
    "--fault",
    "fault_texts",
    multiple=True,
    metavar="KIND:WHERE:SLOWDOWN",
    help="Fault of the simulated cluster; repeatable.",
)
@click.option(
    "--layout",
    type=click.Choice(["rail", "leaf-spine"]),
    help="Simulated fabric: one leaf per rail, or per group of nodes.  [default: rail]",
)
@click.option(
    "--nodes-per-leaf", type=click.IntRange(min=1), metavar="N", help="Simulated nodes per leaf.  [default: 32]"
)
@click.option(
    "--oversubscription",
    type=click.FloatRange(min=1, max=64),
    metavar="RATIO",
    help="Simulated NIC rate of a leaf over its uplink rate.  [default: 1]",
)
@click.option("--measure-with", "program", metavar="'PROGRAM ARGS'", help="External program that measures the flows.")
@click.option(
    "--logs",
    multiple=True,
    metavar="DIRECTORY|FILE",
    shell_complete=complete_log,
    help="Existing runs on different nodes; nothing is measured; repeatable.",
)
@click.option("--connected", "descriptors", hidden=True)
@click.option("--also-json", is_flag=True, hidden=True)
@click.option(
    "--backend", type=click.Choice(["auto", "host", "nccl"]), help="Backend on this machine.  [default: auto]"
)
@click.option(
    "-t",
    "--ranks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks on this machine.  [default: one per GPU; on the host one per processor from 2 to 4]",
)
@click.option(
    "--answer-timeout",
    "answer_timeout_s",
    type=Seconds(),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Limit for each answer of the program.",
)
@topology_option
@click.option(
    "--size",
    "size_bytes",
    type=Size(),
    metavar="SIZE",
    help="Bytes of each flow, such as 8M.  [default: 64M between nodes, 256M inside]",
)
@click.option("--pairs", is_flag=True, help="Measure all pairs of nodes, too.")
@click.option("--max-rounds", type=click.IntRange(min=1), metavar="N", help="Measure at most N rounds.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the rounds and the simulation.")
@click.option(
    "--system", "system_name", metavar="NAME|FILE", help="System or machine type, to predict the cost of a finding."
)
@export_options
@destination_options
@json_option
@click.pass_context
def find(
    context: click.Context,
    shape: str | None,
    fault_texts: tuple[str, ...],
    layout: str | None,
    nodes_per_leaf: int | None,
    oversubscription: float | None,
    program: str | None,
    logs: tuple[str, ...],
    descriptors: str | None,
    also_json: bool,
    backend: str | None,
    ranks: int | None,
    answer_timeout_s: float,
    topology: Path | None,
    size_bytes: int | None,
    pairs: bool,
    max_rounds: int | None,
    seed: int,
    system_name: str | None,
    write_hostfile: Path | None,
    junit: Path | None,
    prometheus: Path | None,
    records_path: Path | None,
    store: Path | None,
    as_json: bool,
) -> int:
    """Locates the slow part of a cluster from rounds of disjoint flows, and states how sure that is.

    Measures this machine, or the nodes of a job of a launcher. Keeps all flows in the run store, those of
    simulations and jobs only with --records or --store.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return ExitCode.GOOD  # of the launcher counts
    sources = {"--simulate": shape is not None, "--measure-with": program is not None, "--logs": bool(logs)}
    stated = [name for name, is_stated in sources.items() if is_stated]
    if len(stated) > 1:
        raise UsageError(f"{' and '.join(stated)} exclude each other", remedy="give only one")
    if (backend or ranks) and stated:
        raise UsageError("--backend and --ranks are only for this machine", remedy="remove them")
    simulation_options = {
        "--fault": fault_texts,
        "--layout": layout,
        "--nodes-per-leaf": nodes_per_leaf,
        "--oversubscription": oversubscription,
    }
    unused = [name for name, value in simulation_options.items() if value and shape is None]
    if unused:
        raise UsageError(f"{unused[0]} is only for --simulate", remedy="remove it")
    exports = {"--write-hostfile": write_hostfile, "--junit": junit, "--prometheus": prometheus}
    if logs:
        measuring: dict[str, object] = {
            "--pairs": pairs,
            "--max-rounds": max_rounds,
            "--size": size_bytes,
            "--topology": topology,
        }
        measuring |= {"--system": system_name, "--records": records_path, "--store": store}
        if unused := [name for name, value in measuring.items() if value]:
            raise UsageError(f"--logs measures nothing, so {unused[0]} has no effect", remedy="remove it")
        log_summary = summarize_logs(logs)
        if not as_json:
            print_log_summary(log_summary)
        write_exports(log_summary, exports)
        if as_json:
            click.echo(json_object(log_summary))
        return _exit_code(log_summary)
    system_name = system_name or (_DEFAULT_SYSTEM if shape else None)
    system = named_system(system_name) if system_name else None
    attachments = read_attachments(topology) if topology is not None else []
    with checked_interrupts() as check_interrupt, ExitStack() as open_record:
        source: AbstractContextManager[Measurer]
        if shape is not None:
            source = _simulated_measurer(shape, fault_texts, layout, nodes_per_leaf, oversubscription, seed)
        elif descriptors is not None:
            answers, requests = map(int, descriptors.split(","))
            # The job has limits of its own, also for its start.
            source = MeasuringProgram(ProgramPipes(requests, answers), math.inf, check_interrupt)
        else:
            words = flows_command(backend, ranks) if program is None else split_command("--measure-with", program)
            source = MeasuringProgram(StartedProgram(words), answer_timeout_s, check_interrupt)
        with source as measurer:
            if topology is not None:
                complete_cluster(measurer, attachments, topology)
            search = Search(
                measurer=measurer,
                seed=seed,
                measures_all_pairs=pairs,
                max_rounds=max_rounds,
                size_bytes=size_bytes,
            )
            is_kept = shape is None and descriptors is None
            on_end = open_record.enter_context(
                keep_flows(search, records_path, store, is_simulated=shape is not None, is_kept=is_kept)
            )
            outcome = _run(search, check_interrupt)
            # Processes of a job end with the measuring program. They would not wait long for this result.
            summary = summarize(search, system, is_simulated=shape is not None, ended_early=outcome != _Outcome())
            exit_code = outcome.failure.exit_code if outcome.failure else outcome.exit_code or _exit_code(summary)
            try:
                on_end(summary, exit_code, outcome.failure)
            except BusbwError as error:
                outcome = _Outcome(failure=outcome.failure or error)
            if not as_json:
                print_summary(summary, search, system)
        write_exports(summary, exports)
        if as_json or also_json:
            click.echo(json_object(summary))
    if outcome.failure:
        raise outcome.failure
    return exit_code


@contextmanager
def _simulated_measurer(
    shape: str,
    fault_texts: tuple[str, ...],
    layout: str | None,
    nodes_per_leaf: int | None,
    oversubscription: float | None,
    seed: int,
) -> Iterator[Measurer]:
    from busbw.simulator.measurer import SimulatedMeasurer
    from busbw.simulator.simulation import Noise, Simulation

    nodes, gpus = parse_shape(shape)
    fabric = Fabric(
        nodes=nodes,
        gpus=gpus,
        layout="leaf-spine" if layout == "leaf-spine" else "rail",
        nodes_per_group=nodes_per_leaf or DEFAULT_NODES_PER_GROUP,
        oversubscription=oversubscription or 1.0,
    )
    faults = [parse_fault(text, fabric) for text in fault_texts]
    yield SimulatedMeasurer(Simulation(fabric, faults, Noise(), seed))


@dataclass(frozen=True)
class _Outcome:
    """End of a search: the reason why it ended early, if it did."""

    failure: BusbwError | None = None
    exit_code: int = ExitCode.GOOD
    """Exit code of an interrupt."""


def _run(search: Search, check_interrupt: Callable[[], None]) -> _Outcome:
    """Runs a search with its progress. An error or an interrupt keeps the measured rounds, if there are any."""
    with live_line(plain_interval_s=_PLAIN_INTERVAL_S) as draw:
        start_s = monotonic()

        def show(progress: SearchProgress) -> None:
            check_interrupt()
            spent_s = monotonic() - start_s
            if spent_s > _SHOW_PROGRESS_AFTER_S and progress.done:
                left_s = spent_s / progress.done * (progress.planned - progress.done)
                draw(f"measuring: round {progress.done + 1} of {progress.planned}, {duration_text(left_s)} left")

        search.on_progress = show
        try:
            search.run()
        except BusbwError as error:
            if not search.rounds:
                raise
            return _Outcome(failure=error)
        except KeyboardInterrupt as interrupt:
            if not search.rounds:
                raise
            return _Outcome(exit_code=interrupt_exit_code(interrupt))
    return _Outcome()


def _exit_code(summary: FindSummary) -> int:
    if summary.findings:
        return ExitCode.SLOWER_THAN_DEMANDED
    return UNDECIDED if summary.undecided else ExitCode.GOOD
