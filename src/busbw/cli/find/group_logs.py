"""Reads the logs of many jobs as runs of groups of nodes, and states why a run cannot be used."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import floor, log10
from statistics import median
from typing import TypeAlias

from busbw.comparability import launches_of, method_text, system_facts
from busbw.find.group_runs import GroupRun
from busbw.logs.log import Log, Row, Table
from busbw.store import NoReadableLogError, read_named_logs

_Times: TypeAlias = Mapping[tuple[Hashable, int], float]
"""Times in us by series and size, as in `GroupRun`."""


def read_group_runs(names: Sequence[str], notes: list[str]) -> Iterator[tuple[str, GroupRun]]:
    """Yields the runs of all logs, each with the name of its log. A run that several logs contain counts once.

    Args:
        names: Paths of logs, runs of the store, or folders of them.
        notes: Receives one sentence for each log or run that is not used.

    Raises:
        UsageError: A log that is named itself cannot be read. Unreadable files of a folder are only noted.
    """
    known: dict[Hashable, list[GroupRun]] = {}  # runs by ranks, group and sizes
    unread: list[str] = []
    try:
        for log in read_named_logs(names, notes.append, unread.append):
            if not log.has_rows:
                notes.append(f"{log.source}: it has no row.")
            for table, rows in _rows_of_groups(log):
                run = _group_run(table, rows)
                if isinstance(run, str):
                    notes.append(f"{log.source}: {run}.")
                    continue
                ranks = tuple((rank.rank, rank.host, rank.pid) for rank in table.rank_list)
                similar_runs = known.setdefault((ranks, rows[0].group, frozenset(run.times_us)), [])
                if any(_has_equal_times(run.times_us, other.times_us) for other in similar_runs):
                    notes.append(f"{log.source}: another log has the same run.")
                    continue
                similar_runs.append(run)
                yield log.source, run
    except NoReadableLogError:
        # If files of a folder are unread, their reasons in `notes` say more. The caller then raises an error, because
        # there are no runs.
        if not unread:
            raise
    notes += unread


def _rows_of_groups(log: Log) -> Iterator[tuple[Table, list[Row]]]:
    """Yields each table with the rows of each of its groups of ranks."""
    for table in log.tables:
        for group in dict.fromkeys(row.group for row in table.rows):
            yield table, [row for row in table.rows if row.group == group]


def _has_equal_times(first: _Times, second: _Times) -> bool:
    """True if two runs with equal points can be one run: in a record, and in a table, which has fewer digits."""
    return all(_are_equal(time_us, second[point]) for point, time_us in first.items())


def _are_equal(first_us: float, second_us: float) -> bool:
    """True if one of the times can be the other one with fewer digits."""
    return abs(first_us - second_us) <= _max_rounding_us(max(first_us, second_us))


def _max_rounding_us(time_us: float) -> float:
    """Returns the maximum rounding error of a time in a table, which has at least three digits or two decimals."""
    third_digit_us = 10.0 ** (floor(log10(time_us)) - 2)  # 10 for 1234 us, 0.1 for 12.34 us
    last_digit_us = max(third_digit_us, 0.01)
    return last_digit_us / 2 + 1e-9 * time_us  # the second term allows for floating-point errors


def _group_run(table: Table, rows: Sequence[Row]) -> GroupRun | str:
    """Returns the run of one group of ranks, or the reason why it cannot be used."""
    hosts = table.hosts_by_group.get(rows[0].group)
    if not hosts:
        return "it does not name its hosts"
    if len(table.rank_list) < (table.ranks or 0):
        return "its list of ranks is incomplete"
    if table.has_several_runs:
        return "its table contains several runs"
    times: dict[tuple[object, int], list[float]] = {}
    for row in rows:
        for placement, figure in row.figures.items():
            if figure.time_us and row.size_bytes:
                series = (table.collective_of(row), row.dtype, row.redop, row.root, row.variant, placement)
                times.setdefault((series, row.size_bytes), []).append(figure.time_us)
    settings = (method_text(table), launches_of(table), table.library, len(table.hosts_by_group))
    return GroupRun(
        nodes=frozenset(hosts),
        configuration=(system_facts(table, rows[0]), table.ranks_of(rows[0]), settings),
        times_us={point: median(values) for point, values in times.items()},
    )
