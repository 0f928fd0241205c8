"""`busbw doctor`: finds the cause of slow communication without a benchmark."""

from pathlib import Path
from typing import Any

import click

from busbw.cli.doctor.exports import EXPORTS
from busbw.cli.doctor.launched import DoctorGroup
from busbw.cli.doctor.selection import condition_of, exit_code_of, select, selection_options
from busbw.cli.doctor.several_nodes import gathered_records, print_own_record
from busbw.cli.doctor.text import check_list_lines, check_list_object, result_lines
from busbw.cli.options.export_options import export_options, output_file_option, write_exports
from busbw.cli.options.json_option import json_option
from busbw.cli.options.launcher_options import refuse_options_before
from busbw.cli.options.output_file import write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.doctor.captured_nodes import capture_paths, records_of_captures
from busbw.doctor.catalog import ALL_AREAS, MACHINE_AREAS
from busbw.doctor.log_examination import examine_log
from busbw.doctor.model import Check, Machine
from busbw.doctor.model.check import Area
from busbw.doctor.nccl_log.reader import read_nccl_log
from busbw.doctor.node_record import examine_node, merge_records
from busbw.doctor.open_machine import open_machine, redacted_archive
from busbw.doctor.result import Result
from busbw.errors import ExitCode, UsageError
from busbw.launchers import LAUNCHERS
from busbw.launchers.machine_types.named_system import named_system
from busbw.support.json_output import json_object
from busbw.terminal import activity, console


@click.group(
    cls=DoctorGroup,
    package="busbw.cli.launch",
    sections={"Launchers": LAUNCHERS},
    invoke_without_command=True,
    subcommand_metavar="[LAUNCHER [OPTIONS]]",
    epilog="Try: busbw doctor, or on a cluster: busbw doctor slurm -N 64 -p gpu. "
    "Exit codes: 0 healthy, 1 broken, 5 slow, 3 could not check.",
)
@click.option("--list", "as_list", is_flag=True, help="List all checks with rule, source, cost and fix.")
@output_file_option("--capture", "Write all that was read to FILE, without names and addresses.")
@click.option(
    "--root",
    "roots",
    type=NonEmptyPath(),
    multiple=True,
    metavar="FILE|FOLDER",
    help="Examine a capture, not this machine. Several are compared; repeatable.",
)
@click.option(
    "--log",
    "log_paths",
    multiple=True,
    type=NonEmptyPath(exists=True, allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="Examine NCCL_DEBUG=INFO output of a job; -: standard input.",
)
@click.option("--system", "system_name", metavar="NAME|FILE", help="System or machine type of the nodes of --log.")
@selection_options
@export_options(EXPORTS)
# `busbw doctor LAUNCHER` passes the hidden options to the commands of the nodes and of process 0 (launched.py).
@click.option("--node-record", is_flag=True, hidden=True)
@click.option("--merge", is_flag=True, hidden=True)
@click.option("--also-json", is_flag=True, hidden=True)
@json_option
@click.pass_context
def doctor(
    context: click.Context,
    capture: Path | None,
    roots: tuple[Path, ...],
    log_paths: tuple[Path, ...],
    system_name: str | None,
    only: tuple[str, ...],
    ignored: tuple[str, ...],
    fail_on: tuple[str, ...],
    junit: Path | None,
    prometheus: Path | None,
    *,
    as_list: bool,
    as_json: bool,
    node_record: bool,
    merge: bool,
    also_json: bool,
) -> int:
    """Checks this machine for causes of slow or failing collectives. It changes nothing and needs no root.

    With a launcher, or with several captures, it checks each node, and names the nodes that differ.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return ExitCode.GOOD  # click then calls the command of the launcher, which decides the exit code
    checks = select(only, ignored, _areas(as_list=as_list, has_log=bool(log_paths)))
    if as_list:
        _print_list(checks, as_json=as_json)
        return ExitCode.GOOD
    if node_record:
        print_own_record(roots, checks)
        return ExitCode.GOOD
    if log_paths and roots:
        raise UsageError("--log and --root exclude each other", remedy="remove one of them")
    if system_name is not None and not log_paths:
        raise UsageError("--system concerns the nodes of --log", remedy="add --log FILE, or remove --system")
    paths = capture_paths(roots)
    examines_one_machine = not log_paths and not merge and len(paths) <= 1
    if capture is not None and not examines_one_machine:
        raise UsageError("--capture concerns one machine", remedy="remove it, or the other inputs")
    with activity("examining"):
        if log_paths:
            system = None if system_name is None else named_system(system_name)
            result = examine_log(read_nccl_log(log_paths, system=system), checks)
        elif merge:
            result = merge_records(gathered_records(), checks)
        elif len(paths) > 1:
            result = merge_records(records_of_captures(paths, checks), checks)
        else:
            result = _examine_machine(paths[0] if paths else None, checks, capture_path=capture)
    write_exports(EXPORTS, result, {"--junit": junit, "--prometheus": prometheus})
    if not as_json:
        console().print(*result_lines(result), sep="\n")
    if as_json or also_json:
        click.echo(json_object(result))
    return exit_code_of(result, condition_of(fail_on))


def _areas(*, as_list: bool, has_log: bool) -> tuple[Area, ...]:
    """Returns the areas of the checks that the options can select."""
    if as_list:
        return ALL_AREAS
    if has_log:
        return ("log",)
    # A node gets the selection of its job, and must not refuse one that has only checks of the area nodes.
    return (*MACHINE_AREAS, "nodes")


def _examine_machine(root: Path | None, checks: tuple[Check[Any], ...], *, capture_path: Path | None) -> Result:
    with open_machine(root) as recording:
        # `examine_node` also reads the values for a comparison of nodes, so the capture contains them.
        result = examine_node("", Machine(recording), checks).result
    if capture_path is not None:
        write_whole(capture_path, redacted_archive(recording, is_this_machine=root is None), flag="--capture")
    return result


def _print_list(checks: tuple[Check[Any], ...], *, as_json: bool) -> None:
    if as_json:
        click.echo(json_object(check_list_object(checks)))
    else:
        console().print(*check_list_lines(checks), sep="\n")
