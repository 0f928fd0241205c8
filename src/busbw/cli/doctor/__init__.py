"""`busbw doctor`: finds the cause of slow communication without a benchmark."""

from pathlib import Path

import click

from busbw import __version__
from busbw.cli.doctor.launched import DoctorGroup
from busbw.cli.doctor.log import log_result
from busbw.cli.doctor.several_nodes import (
    capture_paths,
    gathered_records,
    print_own_record,
    records_of_captures,
)
from busbw.cli.doctor.text import check_list_lines, result_lines
from busbw.cli.options.json_option import json_option
from busbw.cli.options.launcher_options import refuse_options_before
from busbw.cli.options.output_file import write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.doctor.catalog import all_checks
from busbw.doctor.facts import facts_of_this_machine
from busbw.doctor.model.check import Check
from busbw.doctor.model.machine import Machine
from busbw.doctor.node_record import examine_node, merge_records
from busbw.doctor.result import FORMAT, Result
from busbw.doctor.sources.capture import archive_bytes, capture_of, read_capture
from busbw.doctor.sources.recording import Recording
from busbw.doctor.sources.this_machine import ThisMachine
from busbw.errors import ExitCode
from busbw.json_output import json_object
from busbw.launchers import LAUNCHERS
from busbw.terminal import console


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
@click.option(
    "--capture", "capture_path", type=NonEmptyPath(dir_okay=False), metavar="FILE", help="Also write a capture."
)
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
@click.option("--node-record", is_flag=True, hidden=True)
@click.option("--merge", is_flag=True, hidden=True)
@json_option
@click.pass_context
def doctor(
    context: click.Context,
    capture_path: Path | None,
    roots: tuple[Path, ...],
    log_paths: tuple[Path, ...],
    system_name: str | None,
    *,
    as_list: bool,
    as_json: bool,
    node_record: bool,
    merge: bool,
) -> int:
    """Checks this machine for causes of slow or failing collectives. It changes nothing and needs no root.

    With a launcher, or with several captures, it checks each node, and names the nodes that differ.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return ExitCode.GOOD  # of the launcher counts
    if as_list:
        _print_list(as_json=as_json)
        return ExitCode.GOOD
    if node_record:
        print_own_record(roots)
        return ExitCode.GOOD
    paths = capture_paths(roots)
    if log_paths:
        result = log_result(log_paths, system_name)
    elif merge:
        result = merge_records(gathered_records())
    elif len(paths) > 1:
        result = merge_records(records_of_captures(paths))
    else:
        result = _examine(paths[0] if paths else None, capture_path)
    if as_json:
        click.echo(json_object(result))
    else:
        for line in result_lines(result):
            console().print(line)
    return exit_code_of(result)


def exit_code_of(result: Result) -> int:
    """Returns 1 if something is broken, 5 if something is slow, 3 if a check could not decide, otherwise 0."""
    severities = {finding.severity for finding in result.findings}
    if "broken" in severities:
        return 1
    if "slow" in severities:
        return ExitCode.SLOWER_THAN_DEMANDED
    needs_root = {check.name for check in all_checks() if check.needs_root}
    return ExitCode.ENVIRONMENT if any(each.check not in needs_root for each in result.could_not_check) else 0


def _examine(root: Path | None, capture_path: Path | None) -> Result:
    recording = Recording(read_capture(root) if root else ThisMachine(facts_of_this_machine()))
    machine = Machine(recording)
    result = examine_node("", machine).result  # with its values, so that a capture holds them
    if capture_path is not None:
        capture = capture_of(recording, node="", busbw_version=__version__)
        write_whole(capture_path, archive_bytes(capture), flag="--capture")
    return result


def _print_list(*, as_json: bool) -> None:
    if as_json:
        fields = ("area", "reads", "rule", "source", "cost", "fix", "needs_root")
        listed = [{"check": each.name, **{name: getattr(each, name) for name in fields}} for each in all_checks()]
        click.echo(json_object({"format": FORMAT, "checks": listed}))
        return
    for line in check_list_lines(all_checks()):
        console().print(line)


__all__ = ["Check", "doctor", "exit_code_of"]
