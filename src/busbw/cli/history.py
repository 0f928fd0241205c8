"""`busbw history`: trends of a measurement over time."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.text import Text

from busbw.cli.open_store import open_index, print_index_problems, store_folder, time_text
from busbw.cli.options.filters import build_filter, filter_options
from busbw.errors import UsageError
from busbw.history import FALSE_ALARMS, BandTrend, Trend, picture, trends
from busbw.logs import PLACEMENT_WORDS
from busbw.store import count_wrong
from busbw.terminal import activity, console, width_of
from busbw.units import count_text, size_text

_MAX_DIFFERENCES = 6


@click.command()
@click.argument("collective")
@filter_options
@click.option("--any-host", is_flag=True, help="Combine runs on different hosts if the number of hosts is equal.")
@click.option(
    "--false-alarms",
    type=click.FloatRange(min=0.0001, max=0.2),
    default=FALSE_ALARMS,
    show_default=True,
    metavar="P",
    help="Maximum probability of a false level change in a trend.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=4, show_default=True, metavar="N", help="Maximum number of trends."
)
@click.option("--plot/--no-plot", "draw", default=True, help="Draw the scores.  [default: --plot]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per trend.")
def history(
    collective: str,
    store: Path | None,
    *,
    any_host: bool,
    false_alarms: float,
    limit: int,
    draw: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Shows COLLECTIVE over time, per band of sizes, and its level changes.

    Runs of one trend have the same collective, type, operator, root, ranks, hosts, device, backend and placement, and
    the same settings that change the meaning of a time.
    """
    folder = store_folder(store)
    wanted = build_filter(datetime.now(timezone.utc), collective, **filters)
    with open_index(folder) as index:
        with activity("looking for changes"):
            found = index.query(
                lambda connection: trends(connection, wanted, any_host=any_host, false_alarms=false_alarms)
            )
        wrong, runs = index.query(lambda connection: count_wrong(connection, wanted))
        print_index_problems(index)
    if wrong:
        excluded = f"{count_text(wrong, 'measurement')} of {count_text(runs, 'run')} excluded: the data were wrong"
        click.echo(f"{excluded}, so the times mean nothing (busbw runs --rows)", err=True)
    if wrong and not found:
        raise UsageError(f"all matching runs in {folder} have wrong data", remedy="list them with busbw runs --rows")
    if not found:
        raise UsageError(f"no run of {wanted.collective} in {folder} matches", remedy="list all runs with busbw runs")
    if as_json:
        for trend in found:
            click.echo(msgspec.json.encode(_json(trend)))
        return
    out = console()
    for trend in found[:limit]:
        for line in _lines(trend, width_of() if draw else 0):
            out.print(line)
    if len(found) > limit:
        click.echo(f"the longest {limit} of {len(found)} trends; --limit shows more, and filters choose", err=True)


def _lines(trend: Trend, picture_width: int) -> Iterator[Text]:
    key = trend.key
    parts = [key.collective, key.dtype, key.redop, None if key.root is None else f"root {key.root}"]
    parts += [f"group {key.group}" if key.group else None, key.variant, PLACEMENT_WORDS[key.placement], key.method]
    yield Text(" ".join(part for part in parts if part), style="bold")
    ranks = "unknown number of ranks" if key.ranks is None else count_text(key.ranks, "rank")
    yield Text(
        f"on: {ranks}, hosts {key.hosts or 'unknown'}, {key.device or 'unknown device'}, "
        f"backend {key.backend or 'unknown'}"
    )
    count = len(trend.names)
    span = f"{time_text(trend.times_s[0])} to {time_text(trend.times_s[-1])} UTC" if count else ""
    yield Text(f"{count_text(count, 'run')}, {span}")
    if picture_width and (drawn := picture(trend, width=picture_width)):
        yield Text(drawn)
    for band in trend.bands:
        yield from _band_lines(trend, band)
    yield Text()


def _band_lines(trend: Trend, band: BandTrend) -> Iterator[Text]:
    sizes = " to ".join(dict.fromkeys((size_text(band.sizes_bytes[0]), size_text(band.sizes_bytes[-1]))))
    known = [score for score in band.scores if score is not None]
    # The median of a few runs is not yet the usual level.
    usual = f"the median of {count_text(len(known), 'run')}" if band.is_too_short else "usual"
    last = f"last run at {known[-1]:.1%} of {usual}" if known else "no run"
    if not band.changes:
        found = "too few runs to detect a change" if band.is_too_short else "no change of level"
        yield Text(f"{band.band} ({sizes}): {found}, {last}")
        return
    yield Text(f"{band.band} ({sizes}): {count_text(len(band.changes), 'change')} of level, {last}")
    for change in band.changes:
        style = "red" if change.shift < 0 else "green"
        word = "slower" if change.shift < 0 else "faster"
        yield Text(
            f"  {abs(change.shift):.1%} {word} from {time_text(trend.times_s[change.at])} on: {trend.names[change.at]}",
            style=style,
        )
        differences = trend.differences(change.at)
        for difference in differences[:_MAX_DIFFERENCES]:
            yield Text(f"    with {difference.name}: {difference.before} -> {difference.after}")
        if not differences:
            yield Text("    the records show no difference to the run before")


def _json(trend: Trend) -> dict[str, object]:
    return {
        "same": trend.key._asdict(),
        "runs": [
            {"name": name, "time_s": time_s, "speed": {band.band: band.scores[number] for band in trend.bands}}
            for number, (name, time_s) in enumerate(zip(trend.names, trend.times_s, strict=True))
        ],
        "usual_us": {str(size): time_us for size, time_us in trend.usual_us.items()},
        "too_short": [band.band for band in trend.bands if band.is_too_short],
        "changes": [
            {
                "band": band.band,
                "run": trend.names[change.at],
                "time_s": trend.times_s[change.at],
                "shift": change.shift,
                "differences": [difference._asdict() for difference in trend.differences(change.at)],
            }
            for band in trend.bands
            for change in band.changes
        ],
    }
