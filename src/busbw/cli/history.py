"""`busbw history`: trends of a measurement over time.

A trend is the series of runs of one configuration. In each band of sizes, the score of a run is its speed relative to
the usual one. A change is a lasting step of the scores.
"""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from busbw.cli.open_store import open_index, print_index_problems, store_folder, time_text
from busbw.cli.options.completion import complete_collective
from busbw.cli.options.filters import build_filter, filter_options
from busbw.errors import UsageError
from busbw.history import BandTrend, Trend, picture, trends
from busbw.logs.log import PLACEMENT_WORDS
from busbw.store import count_wrong
from busbw.support.json_output import json_object
from busbw.terminal import activity, console, terminal_width
from busbw.units import count_text, size_text

_MAX_DIFFERENCES = 6
"""Maximum number of shown differences between the runs before and after a change."""


@click.command()
@click.argument("collective", shell_complete=complete_collective)
@filter_options
@click.option("--any-host", is_flag=True, help="Combine runs on different hosts if the number of hosts is equal.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="Maximum number of printed trends; --json prints all.",
)
@click.option("--plot/--no-plot", "draw", default=True, help="Draw the scores.  [default: --plot]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per trend.")
def history(
    collective: str,
    store: Path | None,
    *,
    any_host: bool,
    limit: int,
    draw: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Shows COLLECTIVE over time, per band of sizes, and its level changes.

    Runs of one trend have the same collective, type, operator, root, ranks, hosts, device, backend, transport and
    placement, and the same settings that change the meaning of a time.
    """
    folder = store_folder(store)
    run_filter = build_filter(datetime.now(timezone.utc), collective, **filters)
    with open_index(folder) as index:
        with activity("looking for changes"):
            all_trends = index.query(lambda connection: trends(connection, run_filter, any_host=any_host))
        wrong_count, wrong_run_count = index.query(lambda connection: count_wrong(connection, run_filter))
        print_index_problems(index)
    if wrong_count:
        measurements, runs = count_text(wrong_count, "measurement"), count_text(wrong_run_count, "run")
        exclusion = f"{measurements} of {runs} excluded: the data were wrong"
        click.echo(f"{exclusion}, so the times mean nothing (busbw runs --rows)", err=True)
    if wrong_count and not all_trends:
        raise UsageError(f"all matching runs in {folder} have wrong data", remedy="list them with busbw runs --rows")
    if not all_trends:
        raise UsageError(
            f"no run of {run_filter.collective} in {folder} matches", remedy="list all runs with busbw runs"
        )
    if as_json:
        for trend in all_trends:
            click.echo(json_object(_trend_fields(trend)))
        return
    out = console()
    for trend in all_trends[:limit]:
        for line in _trend_lines(trend, picture_width=terminal_width() if draw else 0):
            out.print(line)
    if len(all_trends) > limit:
        remedy = "show more with --limit, or select with filters"
        click.echo(f"the longest {limit} of {len(all_trends)} trends; {remedy}", err=True)


def _trend_lines(trend: Trend, *, picture_width: int) -> Iterator[Text]:
    """Yields the lines about a trend. A picture width of 0 omits the picture."""
    key = trend.key
    root = "" if key.root is None else f"root {key.root}"
    group = f"group {key.group}" if key.group else ""
    placement = PLACEMENT_WORDS[key.placement]
    title_words = [key.collective, key.dtype, key.redop, root, group, key.variant, placement, key.method]
    yield Text(" ".join(filter(None, title_words)), style="bold")
    ranks = "unknown number of ranks" if key.ranks is None else count_text(key.ranks, "rank")
    backend = key.backend or "unknown"
    transport = f" over {key.transport}" if key.transport else ""
    yield Text(
        f"on: {ranks}, hosts {key.hosts or 'unknown'}, {key.device or 'unknown device'}, backend {backend}{transport}"
    )
    run_count = len(trend.names)
    period = f"{time_text(trend.times_s[0])} to {time_text(trend.times_s[-1])} UTC" if run_count else ""
    yield Text(f"{count_text(run_count, 'run')}, {period}")
    if picture_width and (drawn := picture(trend, width=picture_width)):
        yield Text(drawn)
    for band in trend.bands:
        yield from _band_lines(trend, band)
    yield Text()


def _band_lines(trend: Trend, band: BandTrend) -> Iterator[Text]:
    first_size, last_size = size_text(band.sizes_bytes[0]), size_text(band.sizes_bytes[-1])
    sizes = first_size if first_size == last_size else f"{first_size} to {last_size}"
    scores = [score for score in band.scores if score is not None]
    # The median of a few runs is not yet the usual level.
    reference_text = f"the median of {count_text(len(scores), 'run')}" if band.is_too_short else "usual"
    last_run_text = f"last run at {scores[-1]:.1%} of {reference_text}" if scores else "no run"
    if not band.changes:
        result = "too few runs to detect a change" if band.is_too_short else "no change of level"
        yield Text(f"{band.band} ({sizes}): {result}, {last_run_text}")
        return
    yield Text(f"{band.band} ({sizes}): {count_text(len(band.changes), 'change')} of level, {last_run_text}")
    for change in band.changes:
        style, word = ("red", "slower") if change.shift < 0 else ("green", "faster")
        first_time, first_run = time_text(trend.times_s[change.first_index]), trend.names[change.first_index]
        yield Text(f"  {abs(change.shift):.1%} {word} from {first_time} on: {first_run}", style=style)
        differences = trend.differences(change.first_index)
        for difference in differences[:_MAX_DIFFERENCES]:
            yield Text(f"    with {difference.name}: {difference.before} -> {difference.after}")
        if not differences:
            yield Text("    the records show no difference to the run before")


def _trend_fields(trend: Trend) -> dict[str, object]:
    """Returns the trend as it is printed with `--json`.

    `same` holds what all runs of the trend have in common, and `speed` the score of each band.
    """
    return {
        "same": trend.key._asdict(),
        "runs": [
            {"name": name, "time_s": time_s, "speed": {band.band: band.scores[index] for band in trend.bands}}
            for index, (name, time_s) in enumerate(zip(trend.names, trend.times_s, strict=True))
        ],
        "usual_us": {str(size): time_us for size, time_us in trend.usual_us.items()},
        "too_short": [band.band for band in trend.bands if band.is_too_short],
        "changes": [
            {
                "band": band.band,
                "run": trend.names[change.first_index],
                "time_s": trend.times_s[change.first_index],
                "shift": change.shift,
                "differences": [difference._asdict() for difference in trend.differences(change.first_index)],
            }
            for band in trend.bands
            for change in band.changes
        ],
    }
