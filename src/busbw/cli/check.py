"""`busbw check`: whether a run is as fast as it should be, with the evidence on one screen."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator

import click
import msgspec
from rich.console import Console
from rich.text import Text

from busbw import readers, system
from busbw.cli.options.nics_option import nics_option, parse_nics
from busbw.cli.options.reference_option import selected_reference
from busbw.errors import ExitCode
from busbw.judge import EXIT_OF, BandVerdict, Grade, JudgedFigure, Verdict, judge, worst
from busbw.store import find
from busbw.system.detect import detect_machine, system_of_machine
from busbw.terminal import activity, width_of
from busbw.terminal import console as make_console
from busbw.units import count_text, plain, size_text

_COLOURS: dict[Grade, str] = {"GOOD": "bold green", "SLOW": "bold yellow", "BROKEN": "bold red", "UNSURE": "bold cyan"}
_MAX_FEATURES = 3


@click.command()
@click.argument("run", metavar="RUN|FILE")
@click.option(
    "--reference",
    "against",
    metavar="NAME|FILE|auto",
    help="What decides instead of the expectation: published figures (`busbw refs`), a log or record of a good run, "
    "a .toml file; auto: the nearest published figures.",
)
@click.option(
    "--system",
    "where",
    metavar="NAME|FILE|auto|here",
    default="auto",
    show_default=True,
    help="What it ran on; auto: what the log says of its devices; here: this machine, with its NICs.",
)
@nics_option
@click.option("--all", "show_all", is_flag=True, help="The evidence of every configuration, not only of the worst.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def check(run: str, against: str | None, where: str, nics: str | None, show_all: bool, as_json: bool) -> int:
    """Judges RUN, a log or a record, by bands: GOOD (exit 0), SLOW (5), BROKEN (1: wrong data) or UNSURE (3)."""
    with activity(f"reading {run}"):
        log = readers.read(find(run))
    place = _place(where)
    given = parse_nics(nics) if nics is not None else None
    with activity(f"judging {run}"):
        verdicts = judge(log, system=place, nics=given, selection=selected_reference(against))
    console = make_console()
    grade = worst([verdict.grade for verdict in verdicts])
    if as_json:
        console.print(msgspec.json.encode({"grade": grade, "verdicts": verdicts}).decode())
        return EXIT_OF[grade]
    if not verdicts:
        _say(console, "UNSURE", f"{run}: no rows were read")
        _lines(console, "next", ["look at what the log holds: `busbw import` says what was refused and why"])
        return ExitCode.ENVIRONMENT
    if log.refused:
        console.print(f"{count_text(len(log.refused), 'line')} refused; `busbw import` says why", style="yellow")
    for warning in log.warnings:
        console.print(plain(warning), style="yellow")
    if len(verdicts) > 1:
        _summary(console, verdicts)
    shown = verdicts if show_all else [next(verdict for verdict in verdicts if verdict.grade == grade)]
    for verdict in shown:
        if len(verdicts) > 1:
            console.print()
        _show(console, verdict)
    return EXIT_OF[grade]


def _place(where: str) -> system.System | None:
    if where == "auto":
        return None
    return system_of_machine(detect_machine())[0] if where == "here" else system.find(where)


def _summary(console: Console, verdicts: Iterable[Verdict]) -> None:
    verdicts = list(verdicts)
    counts = Counter(verdict.grade for verdict in verdicts)
    console.print(", ".join(f"{number} {grade}" for grade, number in counts.items()), style="bold")
    for verdict in verdicts:
        line = Text(f"{verdict.grade:<7}", style=_COLOURS[verdict.grade])
        line.append(plain(f"{verdict.title}: {verdict.reasons[0] if verdict.reasons else ''}"), style="default")
        line.truncate(width_of(), overflow="ellipsis")
        console.print(line)


def _show(console: Console, verdict: Verdict) -> None:
    _say(console, verdict.grade, verdict.title)
    _lines(console, "against", [verdict.yardstick])
    if verdict.bands:
        for line in _bands(verdict.bands):
            console.print(line)
    _lines(console, "because", verdict.reasons)
    _lines(console, "looks like", verdict.causes)
    _lines(console, "next", verdict.advice)
    if verdict.fit:
        half = f"; half of its best busbw at {size_text(round(verdict.half_bytes))}" if verdict.half_bytes else ""
        text = f"latency {verdict.fit.latency_us:.3g} us and busbw {verdict.fit.bandwidth_gbps:.4g} GB/s by fit"
        _lines(console, "the sweep", [f"{text} (error {verdict.fit.error:.0%}){half}"])
    features = sorted(verdict.features, key=lambda feature: -feature.depth)[:_MAX_FEATURES]
    _lines(
        console,
        "notice",
        [f"{one.kind} at {size_text(one.size_bytes)}: {one.evidence}; likely {one.likely}" for one in features],
    )
    _lines(console, "also", verdict.beside)


def _say(console: Console, grade: Grade, text: str) -> None:
    line = Text(f"{grade}  ", style=_COLOURS[grade])
    line.append(plain(text), style="bold default")
    console.print(line)


def _lines(console: Console, label: str, sentences: Iterable[str]) -> None:
    """A label and sentences beside it, wrapped to the width."""
    for sentence in sentences:
        wrapped = textwrap.wrap(plain(sentence), max(40, width_of() - 13), break_long_words=False)
        for number, line in enumerate(wrapped):
            console.print(f"  {label if not number else '':<10} {line}", markup=False, soft_wrap=True)
        label = ""


def _bands(bands: Iterable[BandVerdict]) -> Iterator[Text]:
    head = f"  {'band':<10} {'':<7}{'sizes':<17}{'worst at':>9}{'measured':>12}{'expected':>16}{'time':>6}"
    yield Text(head, style="dim")
    for band in bands:
        sizes = [one.size_bytes for one in band.judged]
        measured, expected = _figures(band.band == "latency", band.worst)
        line = Text(f"  {band.band:<10} ")
        line.append(f"{band.grade:<7}", style=_COLOURS[band.grade])
        line.append(f"{size_text(min(sizes))} - {size_text(max(sizes))}".ljust(17))
        line.append(f"{size_text(band.worst.size_bytes):>9}{measured:>12}{expected:>16}{_times(band.worst.ratio):>6}")
        yield line


def _times(ratio: float) -> str:
    """At most five characters, so that it stands apart in its column."""
    return f"x{ratio:.2f}" if ratio < 9.995 else f"x{ratio:.0f}"


def _figures(by_time: bool, one: JudgedFigure) -> tuple[str, str]:
    """Latency is judged and shown in microseconds, everything else shown in GB/s."""
    limits = one.range_us
    if by_time or not one.busbw_gbps:
        return f"{one.time_us:.4g} us", f"{limits.low:.3g} - {limits.high:.3g}"
    per_us = one.busbw_gbps * one.time_us
    return f"{one.busbw_gbps:.4g} GB/s", f"{per_us / limits.high:.3g} - {per_us / limits.low:.3g}"
