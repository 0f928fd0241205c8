"""Verdicts on a log: selects the yardstick, rejects what cannot be judged, and collects reasons and advice."""

from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from busbw.expect import (
    COLLECTIVES,
    Expectation,
    bus_factor,
    expect,
    network_nics_finder,
    scenario_of,
    system_of,
    with_nics,
)
from busbw.judge.causes import likely_causes
from busbw.judge.grade import grade_bands
from busbw.judge.nearest import NearestReference, nearest, nearest_sweep
from busbw.judge.series import Series, by_median, series_of
from busbw.judge.types import BandVerdict, Verdict, worst
from busbw.judge.yardstick import Yardstick, yardstick_from_expectation, yardstick_from_series
from busbw.logs import Log, Placement, Table
from busbw.reference import Reference
from busbw.statistics.fit import CurveFeature, features, fit, half_bandwidth_bytes
from busbw.system import Nics, System
from busbw.units import count_text, size_text

_MAX_NAMED = 3
_MAX_LIMIT_RATIO = 1.10
"""Maximum credible ratio of busbw to the highest limit of all routes."""


class ReferenceSelection(Struct, kw_only=True, frozen=True):
    """The reference chosen with `--reference`. All fields empty: judge by the expectation."""

    name: str = ""
    reference: Reference | None = None
    log: Log | None = None
    nearest: bool = False
    """True to use the nearest published figures (auto)."""


def judge(
    log: Log, *, system: System | None = None, nics: Nics | None = None, selection: ReferenceSelection | None = None
) -> tuple[Verdict, ...]:
    """Judges each configuration of a log.

    Args:
        log: Log to judge.
        system: System of the run; None to derive it from the log's devices.
        nics: NICs of a node; None to use those of the system.
        selection: Reference to judge by instead of the expectation; None for the expectation.
    """
    chosen = selection or ReferenceSelection()
    empty = (_without_rows(table) for table in log.tables if not table.rows)
    refused = _refused_by_table(log)
    verdicts = (
        _with_refused(_verdict(series, system, nics, chosen), refused[series.table.first_line])
        for series in series_of(log)
    )
    return (*verdicts, *empty)


def _refused_by_table(log: Log) -> Counter[int]:
    """Counts the refused rows that follow the start of each table. Keys are first lines of tables."""
    starts = sorted(table.first_line for table in log.tables)
    if not starts:
        return Counter()
    return Counter(max((start for start in starts if start <= one.line), default=starts[0]) for one in log.refused)


def _with_refused(verdict: Verdict, refused: int) -> Verdict:
    """Turns GOOD into UNSURE if rows of the table could not be read."""
    if verdict.grade != "GOOD" or not refused:
        return verdict
    reason = (
        f"the rows that were read are in their range, but {count_text(refused, 'row')} of the log could not be read"
    )
    return replace(verdict, grade="UNSURE", reasons=(reason,), advice=("see `busbw import` for the refused rows",))


def _without_rows(table: Table) -> Verdict:
    """Returns the verdict on a table without rows."""
    reasons = ["no row of it was read"]
    if table.claimed_out_of_bounds:
        reasons = [f"its footer counts {table.claimed_out_of_bounds} out of bounds", *reasons]
    if table.end_reason:
        reasons.append(f"it ended early ({table.end_reason})")
    return Verdict(
        grade="BROKEN" if table.claimed_out_of_bounds else "UNSURE",
        title=table.collective or table.program or "a table",
        yardstick="nothing",
        reasons=tuple(reasons),
        advice=("see `busbw import` for the refused rows",),
    )


def _verdict(series: Series, system: System | None, nics: Nics | None, selection: ReferenceSelection) -> Verdict:
    expectation = _expectation(series, system, nics)
    named = expectation.system if expectation and (system or nics) else None
    network_nics = network_nics_finder(series.table, named)(series.row)
    assumes_nics = network_nics is not None and not network_nics.is_stated
    series = series.with_stated_nics(network_nics)
    if selection.log is not None:
        series, others = _median_series(series, selection)
        yardstick, reasons, notes = _yardstick_from_log(series, selection.name, others)
    else:
        yardstick, reasons, notes = _yardstick(series, expectation, selection, assumes_nics=assumes_nics)
    if yardstick is not None and yardstick.scatter and not yardstick.blockers:
        variation = f"two starts of one command may be {yardstick.scatter}: `busbw ab` detects smaller differences"
        notes = [*notes, variation]
    verdict = Verdict(
        grade="UNSURE",
        title=series.title,
        yardstick=yardstick.name if yardstick else "nothing",
        beside=(*notes, *_notes(series)),
        **_curve_findings(series),  # type: ignore[arg-type]
    )
    if series.wrong:
        more = f" and {len(series.wrong) - _MAX_NAMED} more" if len(series.wrong) > _MAX_NAMED else ""
        reason = f"wrong data: {'; '.join(series.wrong[:_MAX_NAMED])}{more}"
        return replace(verdict, grade="BROKEN", reasons=(reason,), advice=(_BROKEN_ADVICE,))
    has_wrong_rows = any(figure.wrong_elements for row in series.table.rows for figure in row.figures.values())
    if series.table.claimed_out_of_bounds and not has_wrong_rows:
        reason = f"the log's footer counts {series.table.claimed_out_of_bounds} out of bounds"
        return replace(verdict, grade="BROKEN", reasons=(reason,), advice=(_BROKEN_ADVICE,))
    if blocking := _blocking_reason(series):
        return replace(verdict, reasons=(blocking[0],), advice=(blocking[1],))
    if yardstick is None:
        advice = _NO_YARDSTICK_ADVICE if expectation is None else _NO_EXPECTATION_ADVICE
        return replace(verdict, reasons=tuple(reasons), advice=(advice,))
    if yardstick.blockers:
        reason = "not comparable: " + "; ".join(yardstick.blockers)
        return replace(verdict, reasons=(reason,), advice=("give a reference of the same job (--reference FILE)",))
    graded = _graded(verdict, series, yardstick, expectation)
    by_expectation = selection.log is None and selection.reference is None and not selection.nearest
    return _unstated_nics(graded, expectation) if by_expectation and assumes_nics and expectation else graded


_BROKEN_ADVICE = (
    "repeat the run with -c 1 -n 1 over the same sizes; if data are wrong again, suspect the library, then the hardware"
)
_NICS_ADVICE = (
    "state the NICs of a node: busbw check --nics 8x400, or --system NAME if they are the usual ones of such a machine"
)
_NO_EXPECTATION_ADVICE = "give a good run of the same machine (--reference FILE)"
_NO_YARDSTICK_ADVICE = (
    "state the system (--system NAME; `busbw expect --list-systems` lists them) or give a good run of the same machine "
    "(--reference FILE)"
)


def _expectation(series: Series, system: System | None, nics: Nics | None) -> Expectation | None:
    effective = system or system_of(series.table)
    if effective is not None and nics is not None:
        effective = with_nics(effective, nics.count, nics.gbit, nics.source)
    job = scenario_of(series.table, series.row, effective) if effective else None
    if job is None or effective is None:
        return None
    return expect(job, effective, sorted({point.size_bytes for point in series.points}))


def _unstated_nics(verdict: Verdict, expectation: Expectation) -> Verdict:
    """Turns SLOW into UNSURE, because the assumed NICs may be faster than the actual ones."""
    nics = expectation.system.nics
    if verdict.grade != "SLOW" or nics is None:
        return verdict
    reason = f"the NICs of a node are not stated: {nics.text} are assumed, and with others this may be healthy"
    bands = tuple(replace(band, grade="UNSURE") if band.grade == "SLOW" else band for band in verdict.bands)
    return replace(
        verdict, grade="UNSURE", reasons=(reason, *verdict.reasons), bands=bands, causes=(), advice=(_NICS_ADVICE,)
    )


def _yardstick(
    series: Series, expectation: Expectation | None, selection: ReferenceSelection, *, assumes_nics: bool
) -> tuple[Yardstick | None, list[str], list[str]]:
    """Returns the yardstick or None, the reasons for its absence, and notes."""
    if selection.reference is not None:
        found = nearest_sweep(series, selection.name, selection.reference)
        if found is None:
            return None, [f"{selection.name} has no figures of {series.collective}"], []
        return found.yardstick, [], [f"reference {found.name}: {found.yardstick.similarity}"]
    close = nearest(series)
    notes = [_nearest_text(series, close)] if close else []
    if selection.nearest:
        if close is None:
            return None, [f"no published figures of {series.collective}"], []
        if not close.yardstick.blockers and any(text.startswith("GPU not stated") for text in close.yardstick.differs):
            # An automatic choice needs a known GPU. With a named reference the user vouches for the similarity.
            return replace(close.yardstick, blockers=("the log does not state its GPU",)), [], notes
        if not close.yardstick.blockers and assumes_nics:
            return replace(close.yardstick, blockers=("the NICs of a node are not stated (--nics 8x400)",)), [], notes
        return close.yardstick, [], notes
    if expectation is None:
        return None, [_no_expectation_reason(series)], notes
    if expectation.unknown:
        return None, [expectation.unknown], notes
    return yardstick_from_expectation(expectation, assumes_nics=assumes_nics), [], notes


def _no_expectation_reason(series: Series) -> str:
    if series.collective is None:
        return "the log does not state its collective"
    if series.collective not in COLLECTIVES:
        return f"the traffic of {series.collective} is not known"
    if series.ranks is None:
        return "the log does not state its number of ranks"
    return "the system is not known: the log names no device that busbw has a description of"


def _median_series(series: Series, selection: ReferenceSelection) -> tuple[Series, list[Series]]:
    """Returns the run and the series of the reference log, by medians if all of them have medians."""
    assert selection.log is not None
    others = [other for other in series_of(selection.log) if other.points]
    mine, theirs = by_median(series), [by_median(other) for other in others]
    medians = [other for other in theirs if other is not None]
    return (mine, medians) if mine is not None and len(medians) == len(others) else (series, others)


def _yardstick_from_log(
    series: Series, name: str, others: list[Series]
) -> tuple[Yardstick | None, list[str], list[str]]:
    others = sorted(others, key=lambda other: other.row.group != series.row.group)
    candidates = [yardstick_from_series(name, other, series) for other in others]
    same = sorted(candidates, key=lambda one: (len(one.blockers), len(one.differs)))
    if not same:
        return None, [f"{name} contains no rows"], []
    differs = [f"the reference differs in {'; '.join(same[0].differs)}"] if same[0].differs else []
    return same[0], [], differs


def _nearest_text(series: Series, close: NearestReference) -> str:
    text = f"nearest published: {close.name} ({close.yardstick.similarity})"
    if close.yardstick.blockers:
        return text
    published = {point.size_bytes: point.busbw_gbps for point in close.sweep.points if point.size_bytes}
    shared = [point for point in series.points if point.size_bytes in published and point.busbw_gbps]
    if not shared:
        return text
    last = max(shared, key=lambda point: point.size_bytes)
    there, here = published[last.size_bytes], last.busbw_gbps
    return f"{text}: {there:.4g} GB/s there, {here:.4g} here at {size_text(last.size_bytes)}"


def _blocking_reason(series: Series) -> tuple[str, str] | None:
    """Returns the reason that prevents any verdict, and a remedy. None if the figures can be judged."""
    if series.ranks == 1:
        return (
            "one rank: nothing crosses a link, so busbw is 0 and times are at most those of a copy",
            "start all ranks in one job; several such tables mean that each process ran alone (build with MPI=1)",
        )
    if series.contradictions:
        more = f" (and {len(series.contradictions) - 1} more)" if len(series.contradictions) > 1 else ""
        return (
            f"the figures contradict each other: {series.contradictions[0]}{more}",
            "check the units of time and bandwidth and the number of ranks in the log",
        )
    if not series.points:
        return ("no row has a time at a size above 0", "measure sizes above 0, such as -b 8 -e 1G -f 2")
    return None


def _notes(series: Series) -> list[str]:
    found = []
    if series.unchecked:
        found.append(f"data not checked in {series.unchecked} of {series.figures} measurements")
    found += series.table.warnings[:_MAX_NAMED]
    return found


def _curve_findings(series: Series) -> dict[str, object]:
    """Returns findings that need no yardstick: fit, half-bandwidth size, dips and cliffs."""
    if series.collective not in COLLECTIVES or not series.ranks or series.ranks < 2 or not series.points:
        return {}
    factor = bus_factor(series.collective, series.ranks)
    sweeps: dict[Placement, list[tuple[int, float]]] = {}
    for point in series.points:
        sweeps.setdefault(point.placement, []).append((point.size_bytes, point.time_us))
    points = next(iter(sweeps.values()))
    return {
        "fit": fit(points, factor),
        "half_bytes": half_bandwidth_bytes([(size, size * factor / time / 1e3) for size, time in points]),
        "features": _confirmed([features(sweep, factor) for sweep in sweeps.values()]),
    }


def _confirmed(found: list[tuple[CurveFeature, ...]]) -> tuple[CurveFeature, ...]:
    """Merges the features of both placements. A dip in only one placement is marked as a disturbance."""
    if len(found) < 2:
        return found[0] if found else ()
    first, second = ({feature.size_bytes: feature for feature in one} for one in found[:2])
    both = [
        replace(first[size], evidence=f"{first[size].evidence}; in both placements") for size in first.keys() & second
    ]
    alone = [
        replace(feature, likely="in one placement only: a disturbance during the measurement")
        for size, feature in {**first, **second}.items()
        if (size not in first or size not in second) and feature.kind == "dip"
    ]
    return tuple(sorted([*both, *alone], key=lambda feature: feature.size_bytes))


def _graded(verdict: Verdict, series: Series, yardstick: Yardstick, expectation: Expectation | None) -> Verdict:
    bands = grade_bands(series, yardstick)
    if not bands:
        reason = "the reference covers no size of the run"
        return replace(verdict, reasons=(reason,), advice=("measure sizes of the reference (-b 8 -e 8G -f 2)",))
    reasons = [
        f"{band.band}: {band.reason}"
        for band in sorted(bands, key=lambda one: one.grade == "GOOD")
        if band.grade != "GOOD" or band.reason.startswith("only")
    ]
    grade = worst([band.grade for band in bands])
    advice: list[str] = []
    causes: tuple[str, ...] = ()
    if grade == "SLOW" and expectation is not None and expectation.best is not None:
        causes = likely_causes(expectation, bands)
    if expectation is not None and (above := _above_all_limits(bands, expectation)):
        grade = "UNSURE" if grade == "GOOD" else grade
        reasons.append(above)
        advice.append("state the system (--system), and check ranks and hosts in the log")
    if series.table.complete is False:
        grade = "UNSURE" if grade == "GOOD" else grade
        reasons.append(f"the run ended early{f' ({series.table.end_reason})' if series.table.end_reason else ''}")
        advice.append("repeat the complete run: missing sizes may be those that fail")
    missing = [band for band in ("latency", "middle", "plateau") if band not in {one.band for one in bands}]
    notes = (*verdict.beside, f"not measured: {' and '.join(missing)}") if missing else verdict.beside
    return replace(
        verdict,
        grade=grade,
        bands=bands,
        reasons=tuple(reasons) or ("every band within its range",),
        causes=causes,
        advice=tuple(advice),
        beside=notes,
    )


def _above_all_limits(bands: tuple[BandVerdict, ...], expectation: Expectation) -> str | None:
    if not expectation.routes:
        return None
    highest = max(route.limit_gbps for route in expectation.routes)
    measured = max((one.busbw_gbps or 0.0 for band in bands for one in band.judged), default=0.0)
    if measured <= _MAX_LIMIT_RATIO * highest:
        return None
    return f"{measured:.4g} GB/s is above the limit of {expectation.system.name} ({highest:.4g})"
