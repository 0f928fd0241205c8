"""`busbw check`: judges the speed of a run and shows the evidence on one screen.

Each configuration of the run gets a verdict, with a grade for each band of sizes (latency, middle, plateau). The
yardstick is the expectation for the system, or a reference.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import click
from rich.console import Console
from rich.text import Text

from busbw import readers, system
from busbw.json_output import json_object
from busbw.cli.options.nics_option import nics_option, parse_nics, sharp_option
from busbw.cli.options.reference_option import select_reference
from busbw.cli.speed import figure_texts
from busbw.errors import ExitCode
from busbw.judge import EXIT_OF, BandVerdict, Grade, Verdict, judge, worst
from busbw.store import find
from busbw.system.detect import detect_machine, system_of_machine
from busbw.terminal import activity, terminal_width
from busbw.terminal import console as make_console
from busbw.units import count_text, plain, size_text

_GRADE_STYLES: dict[Grade, str] = {
    "GOOD": "bold green",
    "SLOW": "bold yellow",
    "BROKEN": "bold red",
    "UNSURE": "bold cyan",
}


@click.command()
@click.argument("run", metavar="RUN|FILE")
@click.option(
    "--reference",
    "reference_name",
    metavar="NAME|FILE|auto",
    help="Judge by a reference instead of the expectation: NAME from `busbw refs`, a log, a record, a .toml file, or "
    "auto (nearest).",
)
@click.option(
    "--system",
    "system_name",
    metavar="NAME|FILE|auto|here",
    default="auto",
    show_default=True,
    help="System of the run; auto: from the devices in the log; here: this machine.",
)
@nics_option
@sharp_option
@click.option(
    "--all", "show_all", is_flag=True, help="Show the evidence of every configuration, not only of the worst."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def check(
    run: str,
    reference_name: str | None,
    system_name: str,
    nics: str | None,
    sharp: bool,
    show_all: bool,
    as_json: bool,
) -> int:
    """Judges each band of RUN, a log or a record: GOOD (exit 0), SLOW (5), BROKEN (1: wrong data) or UNSURE (3)."""
    with activity(f"reading {run}"):
        log = readers.read(find(run))
    run_system = _find_system(system_name)
    replacement_nics = parse_nics(nics) if nics is not None else None
    with activity(f"judging {run}"):
        selection = select_reference(reference_name)
        verdicts = judge(log, system=run_system, nics=replacement_nics, sharp=sharp, selection=selection)
    console = make_console()
    grade = worst([verdict.grade for verdict in verdicts])
    if as_json:
        console.print(json_object({"grade": grade, "verdicts": verdicts}).decode())
        return EXIT_OF[grade]
    if not verdicts:
        _print_verdict(console, "UNSURE", f"{run}: no rows were read")
        _print_sentences(console, "next", ["run `busbw import` to see which lines were refused and why"])
        return ExitCode.ENVIRONMENT
    if log.refused:
        console.print(f"{count_text(len(log.refused), 'line')} refused; `busbw import` shows why", style="yellow")
    for warning in log.warnings:
        console.print(plain(warning), style="yellow")
    if len(verdicts) > 1:
        _print_summary(console, verdicts)
    selected = verdicts if show_all else [next(verdict for verdict in verdicts if verdict.grade == grade)]
    for verdict in selected:
        if len(verdicts) > 1:
            console.print()
        _print_details(console, verdict)
    return EXIT_OF[grade]


def _find_system(system_name: str) -> system.System | None:
    """Returns the system of `--system`. None for auto: `judge` infers it from the log."""
    if system_name == "auto":
        return None
    if system_name == "here":
        local_system, _description = system_of_machine(detect_machine())
        return local_system
    return system.find(system_name)


def _print_summary(console: Console, verdicts: Sequence[Verdict]) -> None:
    counts = Counter(verdict.grade for verdict in verdicts)
    console.print(", ".join(f"{number} {grade}" for grade, number in counts.items()), style="bold")
    for verdict in verdicts:
        line = Text(f"{verdict.grade:<7}", style=_GRADE_STYLES[verdict.grade])
        line.append(plain(f"{verdict.title}: {verdict.reasons[0] if verdict.reasons else ''}"), style="default")
        line.truncate(terminal_width(), overflow="ellipsis")
        console.print(line)


def _print_details(console: Console, verdict: Verdict) -> None:
    _print_verdict(console, verdict.grade, verdict.title)
    _print_sentences(console, "against", [verdict.yardstick])
    if verdict.bands:
        for line in _band_lines(verdict.bands):
            console.print(line)
    for label, labeled in groupby(verdict.labeled_sentences(), key=itemgetter(0)):
        _print_sentences(console, label, [sentence for _, sentence in labeled])


def _print_verdict(console: Console, grade: Grade, text: str) -> None:
    line = Text(f"{grade}  ", style=_GRADE_STYLES[grade])
    line.append(plain(text), style="bold default")
    console.print(line)


def _print_sentences(console: Console, label: str, sentences: Iterable[str]) -> None:
    """Prints a label with sentences beside it, wrapped to the terminal width."""
    for sentence in sentences:
        wrapped = textwrap.wrap(plain(sentence), max(40, terminal_width() - 13), break_long_words=False)
        for number, line in enumerate(wrapped):
            console.print(f"  {label if not number else '':<10} {line}", markup=False, soft_wrap=True)
        label = ""


def _band_lines(bands: Iterable[BandVerdict]) -> Iterator[Text]:
    heading = f"  {'band':<10} {'':<7}{'sizes':<17}{'worst at':>9}{'measured':>12}{'expected':>16}{'time':>6}"
    yield Text(heading, style="dim")
    for band in bands:
        sizes = [figure.size_bytes for figure in band.judged]
        measured, expected = figure_texts(band.worst, as_time=band.band == "latency")
        line = Text(f"  {band.band:<10} ")
        line.append(f"{band.grade:<7}", style=_GRADE_STYLES[band.grade])
        line.append(f"{size_text(min(sizes))} - {size_text(max(sizes))}".ljust(17))
        line.append(
            f"{size_text(band.worst.size_bytes):>9}{measured:>12}{expected:>16}{_ratio_text(band.worst.ratio):>6}"
        )
        yield line


def _ratio_text(ratio: float) -> str:
    """Returns the ratio of the times in at most five characters, one less than the column width."""
    return f"x{ratio:.2f}" if ratio < 9.995 else f"x{ratio:.0f}"
