"""Prints the comparison of a replay with its recording."""

import click
from msgspec import Struct

from busbw.cli.traces.lines import column_lines, hidden_line
from busbw.terminal import Column, console, terminal_width
from busbw.traces.analysis.text import sizes_text, value_text
from busbw.units import count_text, milliseconds_text, names_text, number_text, plain

_MAX_ROWS = 20


class CallComparison(Struct, kw_only=True, frozen=True):
    """Calls with one function and size in communicators of one kind. Times are medians of a call. None: unknown."""

    ranks: tuple[str, ...]
    """Ranks of each communicator as text."""
    function: str
    min_size_bytes: int | None
    max_size_bytes: int | None
    calls_per_step: float
    recorded_us: float | None
    replayed_us: float | None


class ReplayComparison(Struct, kw_only=True, frozen=True):
    """Comparison of a replay with the recording. Field names are keys of the JSON output. None: unknown."""

    trace: str
    step: str
    ranks: int
    recorded_us: float | None
    """Time of the recorded step."""
    replayed_us: float | None
    """Median time of the replayed step."""
    interval_us: tuple[float, float] | None
    """95 % confidence interval of the median."""
    wrong_elements: int | None
    """None if the data was not checked."""
    calls: tuple[CallComparison, ...]
    notes: tuple[str, ...]
    """Limitations, as sentences."""


def print_replay(comparison: ReplayComparison) -> None:
    """Prints the table of calls, the times of the step and the limitations."""
    rows = comparison.calls[:_MAX_ROWS]
    columns = [
        Column("ranks", [names_text(row.ranks, 2) for row in rows], is_number=False),
        Column("function", [row.function for row in rows], is_number=False),
        Column("size", [sizes_text(row.min_size_bytes, row.max_size_bytes) for row in rows]),
        Column("calls", [number_text(row.calls_per_step) for row in rows]),
        Column("recorded us", [value_text(row.recorded_us) for row in rows]),
        Column("replayed us", [value_text(row.replayed_us) for row in rows]),
    ]
    out = console()
    if rows:
        for line in column_lines(columns, terminal_width()):
            out.print(line)
    for line in hidden_line(len(comparison.calls) - len(rows), "row"):
        out.print(line)
    click.echo(f"Step: {_step_text(comparison)}")
    for note in comparison.notes:
        click.echo(f"Note: {plain(note)}")


def _step_text(comparison: ReplayComparison) -> str:
    """Returns the comparison of the step times."""
    name = f"{plain(comparison.trace)}, {comparison.step}, on {count_text(comparison.ranks, 'rank')}"
    if comparison.replayed_us is None:
        return f"{name}: the replay has no time."
    interval = ""
    if comparison.interval_us:
        low, high = (number_text(end_us / 1e3) for end_us in comparison.interval_us)  # in ms, as the time before
        interval = f" ({low} to {high})"
    text = f"{name}: replayed in {milliseconds_text(comparison.replayed_us)}{interval}"
    if comparison.recorded_us is None:
        return f"{text}; there is no comparable recorded time."
    text += f", recorded in {milliseconds_text(comparison.recorded_us)}"
    low_us, high_us = comparison.interval_us or (comparison.replayed_us, comparison.replayed_us)
    if low_us < comparison.recorded_us < high_us:
        return f"{text}: no clear difference."
    change = comparison.replayed_us / comparison.recorded_us - 1
    direction = "longer" if change > 0 else "shorter"
    return f"{text}: {abs(change):.1%} {direction}."
