"""`busbw report`: one HTML file that says what was measured, whether it is good, and shows it."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from busbw import readers, system
from busbw.cli.options.output_file import write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.cli.options.reference_option import selected_reference
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.exporters.redact import redact_all
from busbw.judge import ReferenceSelection
from busbw.logs import Log, Table
from busbw.report import ReportInput, build, render
from busbw.store import RECORDS, entries, find
from busbw.system import System
from busbw.terminal import activity
from busbw.units import count_text


@click.command()
@click.argument("names", metavar="RUN|FILE|FOLDER...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=NonEmptyPath(dir_okay=False, allow_dash=True),
    metavar="FILE",
    default="report.html",
    show_default=True,
    help="Where it goes, in place of what was there; - for standard output.",
)
@click.option(
    "--reference",
    "against",
    metavar="NAME|FILE|auto",
    help="What decides instead of the expectation, as in `busbw check`.",
)
@click.option(
    "--system",
    "places",
    metavar="[N[.T]=]NAME|FILE",
    multiple=True,
    help="What the logs ran on; with N= only the Nth log, with N.T= only its Tth table. Without it what each says of "
    "its devices.",
)
@click.option("--title", metavar="TEXT", help="The heading.  [default: the log's name, or how many there are]")
@click.option("--redact", "is_redacted", is_flag=True, help="For sharing: no names of hosts and people, paths, ids.")
def report(
    names: Sequence[str],
    output: Path,
    against: str | None,
    places: Sequence[str],
    title: str | None,
    *,
    is_redacted: bool,
) -> int:
    """Writes one HTML file about runs and logs: verdict first, then curves, comparison, scatter, rows.

    Two logs are compared with each other. The file needs no network and nothing beside it. Exit code 1 where data are
    wrong.
    """
    with activity("reading"):
        logs, warnings = _read(names)
    if not any(log.rows for log in logs):
        raise UsageError(f"no row of a table could be read from {logs[0].source}", remedy="busbw import says why")
    systems = _systems(logs, places)
    yardstick = selected_reference(against)
    if is_redacted:
        subjects, yardstick = _redacted(logs, systems, yardstick)
        warnings = [f"{count_text(len(warnings), 'remark')} on files left out here."] if warnings else []
    else:
        subjects = [ReportInput(log, own) for log, own in zip(logs, systems, strict=True)]
    with activity("judging and drawing"):
        page = build(subjects, against=yardstick, warnings=warnings, title=title, is_redacted=is_redacted)
        # A lone surrogate from a broken log has been replaced before; nothing else is beyond UTF-8.
        content = render(page).encode("utf-8", errors="replace")
    write_whole(None if str(output) == "-" else output, content)
    if str(output) != "-":
        click.echo(f"{output}: {page.headline}")
    figures = (figure for log in logs for row in log.rows for figure in row.figures.values())
    return ExitCode.WRONG_DATA if any(figure.wrong_elements for figure in figures) else ExitCode.GOOD


def _read(names: Sequence[str]) -> tuple[list[Log], list[str]]:
    """All logs. What was named must be readable; of a folder, what cannot be read is said in the report."""
    logs: list[Log] = []
    warnings: list[str] = []
    for name, times in Counter(names).items():
        if times > 1:
            warnings.append(f"{name} was given {times} times and is shown once.")
        if not Path(name).is_dir() or (Path(name) / RECORDS).is_file():
            logs.append(readers.read(find(name)))
            continue
        found = sorted(entry.log for entry in entries(Path(name)))
        if not found:
            raise UsageError(f"the folder {name} holds no run and no log", remedy="give a folder of runs or logs")
        for path in found:
            try:
                logs.append(readers.read(path))
            except BusbwError as error:
                warnings.append(f"{path} was left out: {error}")
    if not logs:
        raise UsageError(f"nothing could be read: {warnings[0]}", remedy="give a log that `busbw import` can read")
    return logs, warnings


def _systems(logs: Sequence[Log], places: Sequence[str]) -> list[tuple[System | None, ...]]:
    """For every table of every log: what was named for it, for its log, or for all; None where nothing was."""
    named: dict[tuple[int, int], System] = {}
    for place in places:
        only = re.fullmatch(r"(\d+)(?:\.(\d+))?=(.*)", place)
        key = (int(only[1]), int(only[2] or 0)) if only else (0, 0)
        if only and not 1 <= key[0] <= len(logs):
            there = f"there {'is' if len(logs) == 1 else 'are'} {count_text(len(logs), 'log')}"
            raise UsageError(f"--system {place}: {there}", remedy="count them from 1")
        if only and only[2] and not 1 <= key[1] <= len(logs[key[0] - 1].tables):
            has = count_text(len(logs[key[0] - 1].tables), "table")
            raise UsageError(f"--system {place}: that log has {has}", remedy="count them from 1")
        if key in named:
            raise UsageError(f"--system {place}: a system was named for that", remedy="name it once")
        named[key] = system.find(only[3] if only else place)
    return [
        tuple(
            named.get((one, two)) or named.get((one, 0)) or named.get((0, 0)) for two in range(1, len(log.tables) + 1)
        )
        for one, log in enumerate(logs, start=1)
    ]


def _redacted(
    logs: Sequence[Log], systems: Sequence[tuple[System | None, ...]], against: ReferenceSelection | None
) -> tuple[list[ReportInput], ReferenceSelection | None]:
    """The same names become the same words in the logs and in what they are held against."""
    other = against.log if against else None
    shown = redact_all([*logs, *([other] if other else [])])
    subjects = [
        ReportInput(_without_titles(made), own, tuple(map(_judged, made.tables, log.tables)))
        for log, made, own in zip(logs, shown, systems, strict=False)
    ]
    if against is None or other is None:
        return subjects, against
    told = replace(shown[-1], tables=tuple(map(_judged, shown[-1].tables, other.tables)))
    return subjects, replace(against, name="the reference", log=told)


def _judged(shown: Table, original: Table) -> Table:
    """What says what to expect: the heading may name the system, and the environment the algorithm."""
    return replace(shown, title=original.title, environment=original.environment)


def _without_titles(log: Log) -> Log:
    """A heading that says only that it was left out is none."""
    return replace(log, tables=tuple(replace(table, title=None) for table in log.tables))
