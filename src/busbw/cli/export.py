"""`busbw export`: writes runs in the formats of other programs."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from busbw.cli.options.completion import complete_log
from busbw.cli.options.output_file import reject_input, write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.cli.options.redact_option import redact_option
from busbw.cli.options.reference_option import reference_option, select_reference
from busbw.cli.options.system_option import find_system, nics_option, sharp_option, system_option
from busbw.errors import UsageError
from busbw.exporters import EXPORTERS
from busbw.exporters.junit import FAILED_GRADES
from busbw.exporters.redact import redact_all, with_expectation_fields
from busbw.judge import JudgedConfiguration, Verdict, judge_configurations
from busbw.logs.log import Log
from busbw.logs.sequences import StoredSequence, temporary_file, temporary_file_errors
from busbw.store import read_named_logs
from busbw.system import Nics
from busbw.terminal import activity
from busbw.units import count_text, plain


@click.command()
@click.argument("format_name", metavar="FORMAT", type=click.Choice(list(EXPORTERS)))
@click.argument("names", metavar="RUN|FILE|FOLDER...", nargs=-1, required=True, shell_complete=complete_log)
@click.option(
    "-o",
    "--output",
    type=NonEmptyPath(dir_okay=False),
    metavar="FILE",
    help="Output file, replaced if it exists.  [default: standard output]",
)
@reference_option("Judge by a reference instead of the expectation, as in `busbw check`; junit and prometheus only.")
@system_option
@nics_option
@sharp_option
@redact_option
def export(
    format_name: str,
    names: Sequence[str],
    output: Path | None,
    reference_name: str | None,
    system_name: str,
    nics: Nics | None,
    *,
    sharp: bool,
    is_redacted: bool,
) -> None:
    """Writes runs as FORMAT: csv, json, markdown, junit, prometheus or parquet.

    A FOLDER stands for all runs and logs in it. junit and prometheus contain the verdicts of `busbw check`.
    """
    exporter = EXPORTERS[format_name]
    is_set_by_option = {
        "--reference": reference_name is not None,
        "--system": system_name != "auto",
        "--nics": nics is not None,
        "--sharp": sharp,
    }
    _require_verdicts(format_name, [option for option, is_set in is_set_by_option.items() if is_set])
    if is_redacted and reference_name is not None:
        raise UsageError("--redact and --reference exclude each other", remedy="remove one of them")
    if output is None and format_name == "parquet" and sys.stdout.isatty():
        raise UsageError("parquet is binary, and stdout is a terminal", remedy=f"set -o runs{exporter.SUFFIX}")
    if output is not None:
        reject_input(output, names)
    with activity(f"reading {count_text(len(names), 'name')}"):
        notes: list[str] = []
        logs: Sequence[Log] = list(read_named_logs(names, on_note=notes.append, on_skipped=notes.append))
    for note in notes:
        click.echo(plain(note), err=True)
    empty_sources = [log.source for log in logs if not log.has_rows]
    if len(empty_sources) == len(logs):
        raise UsageError(f"{empty_sources[0]} has no readable row", remedy="run busbw show to see why")
    for source in empty_sources:
        click.echo(plain(f"{source} has no readable row; `busbw show` says why"), err=True)
    exported_logs = redact_all(logs) if is_redacted else logs
    verdicts = StoredSequence(JudgedConfiguration)  # a long log has too many for memory
    if exporter.HAS_VERDICTS:
        judge = partial(
            judge_configurations,
            system=find_system(system_name),
            nics=nics,
            sharp=sharp,
            selection=select_reference(reference_name),
            needs_curve=_needs_curve,
        )
        # Redaction removes fields that a verdict needs.
        judged_logs = map(with_expectation_fields, exported_logs, logs) if is_redacted else logs
        with activity("judging"):
            for log in judged_logs:
                verdicts.extend(map(_without_unexported_parts, judge(log)))
    with temporary_file() as file:
        with activity(f"writing {format_name}"), temporary_file_errors():
            exporter.write(exported_logs, file, verdicts)
            file.flush()
        write_whole(output, file)


def _needs_curve(verdict: Verdict) -> bool:
    """True if an exporter writes the findings on the curve of this verdict: junit explains failures."""
    return verdict.grade in FAILED_GRADES


def _without_unexported_parts(configuration: JudgedConfiguration) -> JudgedConfiguration:
    """Removes the bands and the expectation, which no exporter writes, to save space in the file of verdicts."""
    verdict = replace(configuration.verdict, bands=())
    return replace(configuration, expectation=None, verdict=verdict)


def _require_verdicts(format_name: str, options: Sequence[str]) -> None:
    """Refuses options about verdicts for a format without verdicts."""
    if options and not EXPORTERS[format_name].HAS_VERDICTS:
        formats = " or ".join(name for name, exporter in EXPORTERS.items() if exporter.HAS_VERDICTS)
        raise UsageError(f"{options[0]} does not apply to {format_name}", remedy=f"remove it, or export {formats}")
