"""`busbw check`: judges the speed of a run and shows the evidence on one screen.

Each configuration of the run gets a verdict, with a grade for each band of sizes (latency, middle, plateau). The
yardstick is the expectation for the system, or a reference.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from busbw.cli.check.verdict_summary import GRADE_STYLES, VerdictSummary, in_order, title_of
from busbw.cli.options.completion import complete_log
from busbw.cli.options.json_option import json_option
from busbw.cli.options.reference_option import reference_option, select_reference
from busbw.cli.options.system_option import find_system, nics_option, sharp_option, system_option
from busbw.cli.outcome.speed import figure_texts
from busbw.judge import (
    EXIT_OF,
    BandVerdict,
    Grade,
    JudgedConfiguration,
    Verdict,
    judge_configurations,
    worst,
)
from busbw.logs.log import Log
from busbw.logs.sequences import StoredSequence
from busbw.store import read_named_logs
from busbw.support.json_output import encode_item, print_object
from busbw.system import Nics
from busbw.terminal import activity, labeled_lines, terminal_width
from busbw.terminal import console as make_console
from busbw.units import count_text, plain, size_range_text, size_text

if TYPE_CHECKING:
    from busbw.doctor.result import ReportedFinding


class _JudgedLogs:
    """Verdicts on all logs."""

    def __init__(self, *, keeps_all: bool) -> None:
        self._keeps_all = keeps_all
        self.summary = VerdictSummary()
        self.stored = StoredSequence(JudgedConfiguration)
        """All verdicts if each is shown, otherwise empty. They are in a file: a long log has too many for memory."""
        self.notes: dict[str, list[str]] = {}
        """Notes on each log, by its source."""
        self.without_verdict: list[str] = []
        """Sources of the logs without a verdict."""
        self.suspects: set[str] = set()
        """Sources of the logs with a verdict other than GOOD, or without a verdict."""

    def add(self, log: Log, configurations: Iterable[JudgedConfiguration]) -> None:
        """Adds the verdicts on a log."""
        self.notes[log.source] = _log_notes(log)
        previous_count = self.summary.count
        for configuration in configurations:
            stripped = replace(configuration, expectation=None)  # no output of this command shows the expectation
            self.summary.add(stripped)
            if stripped.verdict.grade != "GOOD":
                self.suspects.add(log.source)
            if self._keeps_all:
                self.stored.extend([stripped])
        if self.summary.count == previous_count:
            self.without_verdict.append(log.source)
            self.suspects.add(log.source)

    def needs_curve(self, verdict: Verdict) -> bool:
        """True if the output will show this verdict with the findings on its curve. Called before `add`."""
        return self._keeps_all or self.summary.is_worst(verdict)

    @property
    def has_several_logs(self) -> bool:
        """True if there are several logs, so that each line names its log."""
        return len(self.notes) > 1

    def log_notes(self) -> Iterator[str]:
        """Yields the notes on the logs."""
        for source, texts in self.notes.items():
            yield from (f"{source}: {text}" if self.has_several_logs else text for text in texts)
        if self.has_several_logs:
            yield from (f"{source}: no rows were read; `busbw import` shows why" for source in self.without_verdict)


@click.command()
@click.argument("names", metavar="RUN|FILE|FOLDER...", nargs=-1, required=True, shell_complete=complete_log)
@reference_option(
    "Judge by a reference instead of the expectation: NAME from `busbw refs`, a log, a record, a .toml file, or "
    "auto (nearest)."
)
@system_option
@nics_option
@sharp_option
@click.option(
    "--all", "show_all", is_flag=True, help="Show the evidence of every configuration, not only of the worst."
)
@json_option
def check(
    names: Sequence[str],
    reference_name: str | None,
    system_name: str,
    nics: Nics | None,
    sharp: bool,
    show_all: bool,
    as_json: bool,
) -> int:
    """Judges each band of runs and logs: GOOD (exit 0), SLOW (5), BROKEN (1: wrong data) or UNSURE (3).

    A FOLDER stands for all runs and logs in it; if one is unreadable, the result is at best UNSURE. Verdicts on
    several logs are listed worst first: BROKEN, SLOW, UNSURE, GOOD. The exit code is that of the worst.
    """
    run_system = find_system(system_name)
    selection = select_reference(reference_name)
    notes: list[str] = []
    skipped: list[str] = []
    judged = _JudgedLogs(keeps_all=as_json or show_all)
    with activity(f"judging {names[0] if len(names) == 1 else count_text(len(names), 'name')}"):
        for log in read_named_logs(names, notes.append, skipped.append):
            configurations = judge_configurations(
                log,
                system=run_system,
                nics=nics,
                sharp=sharp,
                selection=selection,
                needs_curve=judged.needs_curve,
            )
            judged.add(log, configurations)
    notes += [*skipped, *judged.log_notes()]
    summary, has_several_logs = judged.summary, judged.has_several_logs
    missing_grades: list[Grade] = ["UNSURE"] if judged.without_verdict or skipped else []
    grade = worst([*summary.grades, *missing_grades])
    if skipped and grade == "UNSURE":
        notes.append(f"the result is UNSURE: {count_text(len(skipped), 'file')} could not be judged")
    # A name that is not a source stands for a folder or a run. Any of its logs may be a suspect.
    sources = judged.notes.keys()
    to_explain = [name for name in names if name in judged.suspects or name not in sources]
    causes = _causes(to_explain) if grade != "GOOD" else {}
    all_in_order = in_order(judged.stored, worst_first=has_several_logs)  # the verdicts of one log stay in its order
    if as_json:
        items = (encode_item(_verdict_object(entry)) for entry in all_in_order)
        print_object({"grade": grade, "notes": notes, "causes": causes}, {"verdicts": items})
        return EXIT_OF[grade]
    console = make_console()
    for note in notes:
        console.print(plain(note), style="yellow")
    if summary.worst is None:
        _print_verdict(console, "UNSURE", f"{', '.join(judged.notes)}: no rows were read")
        _print_sentences(console, "next", ["run `busbw import` to see which lines were refused and why"])
        return EXIT_OF[grade]
    detailed = all_in_order if show_all else [summary.worst]
    _print_verdicts(console, summary, detailed, has_several_logs=has_several_logs)
    _print_causes(console, causes, has_several_logs=has_several_logs)
    return EXIT_OF[grade]


def _print_causes(
    console: Console, causes: "Mapping[str, Sequence[ReportedFinding]]", *, has_several_logs: bool
) -> None:
    if not causes:
        return
    from busbw.cli.outcome.possible_causes import cause_sentences  # slow import, which most logs do not need

    for name, findings in causes.items():
        sentences = cause_sentences(findings, f"busbw doctor --log {shlex.quote(name)}")
        prefix = f"{name}: " if has_several_logs else ""
        _print_sentences(console, "cause?", (prefix + sentence for sentence in sentences))


def _causes(names: Sequence[str]) -> "dict[str, tuple[ReportedFinding, ...]]":
    """Returns the findings by name, from the messages of NCCL. Only names of files with such messages have findings."""
    from busbw.cli.outcome.possible_causes import causes_in_log  # slow import, which a good log does not need

    causes = {name: causes_in_log(Path(name)) for name in names}
    return {name: findings for name, findings in causes.items() if findings}


def _print_verdicts(
    console: Console, summary: VerdictSummary, detailed: Iterable[JudgedConfiguration], *, has_several_logs: bool
) -> None:
    """Prints the summary if there are several verdicts, and some verdicts with their evidence."""
    if summary.count > 1:
        for line in summary.lines(has_several_logs=has_several_logs):
            console.print(line)
        # Usually only one verdict is shown in full, but the late ranks of every verdict are named.
        _print_sentences(console, "late rank", summary.late_rank_texts(has_several_logs=has_several_logs))
    for configuration in detailed:
        if summary.count > 1:
            console.print()
        _print_details(console, title_of(configuration, has_several_logs=has_several_logs), configuration.verdict)


def _log_notes(log: Log) -> list[str]:
    refused = [f"{count_text(len(log.refused), 'line')} refused; `busbw import` shows why"] if log.refused else []
    return [*refused, *log.warnings]


def _verdict_object(configuration: JudgedConfiguration) -> dict[str, object]:
    """Returns the verdict as it is printed with `--json`: its fields, with those that identify the configuration."""
    fields: dict[str, object] = {
        name: getattr(configuration, name)
        for name in configuration.__struct_fields__
        if name not in ("verdict", "expectation")
    }
    return {**msgspec.structs.asdict(configuration.verdict), **fields}


def _print_details(console: Console, title: str, verdict: Verdict) -> None:
    _print_verdict(console, verdict.grade, title)
    _print_sentences(console, "against", [verdict.yardstick])
    if verdict.bands:
        for line in _band_lines(verdict.bands):
            console.print(line)
    for label, labeled in groupby(verdict.labeled_sentences(), key=itemgetter(0)):
        _print_sentences(console, label, [sentence for _, sentence in labeled])


def _print_verdict(console: Console, grade: Grade, text: str) -> None:
    line = Text(f"{grade}  ", style=GRADE_STYLES[grade])
    line.append(plain(text), style="bold default")
    console.print(line)


def _print_sentences(console: Console, label: str, sentences: Iterable[str]) -> None:
    """Prints a label in front of the first sentence, with all sentences wrapped in a column beside it."""
    beginning = f"  {label:<10} "
    for sentence in sentences:
        for line in labeled_lines(beginning, plain(sentence), terminal_width()):
            console.print(line)
        beginning = " " * len(beginning)


def _band_lines(bands: Iterable[BandVerdict]) -> Iterator[Text]:
    yield Text(
        f"  {'band':<7} {'':<6} {'sizes':<17} {'worst at':>8} {'measured':>10} {'expected':>13}  vs typical",
        style="dim",
    )
    for band in bands:
        has_no_data = not band.worst.size_bytes  # a call of comm_ops
        sizes = "-" if has_no_data else size_range_text(figure.size_bytes for figure in band.judged)
        as_time = band.is_shown_as_time
        measured, expected = figure_texts(band.worst, as_time=as_time)
        distance = band.worst.signed_distance_text(as_time=as_time)
        worst_at = "-" if has_no_data else size_text(band.worst.size_bytes)
        line = Text(f"  {band.band:<7} ")
        line.append(f"{band.grade:<6} ", style=GRADE_STYLES[band.grade])
        line.append(f"{sizes:<17} {worst_at:>8} {measured:>10} {expected:>13}  {distance:>10}")
        yield line
