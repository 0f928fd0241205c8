"""Reads the logs of many jobs as runs of groups of nodes, and states why a run cannot be used."""

from collections.abc import Iterator, Sequence
from statistics import median

from busbw.comparability import launches_of, method_text, system_facts
from busbw.errors import UsageError
from busbw.find.group_runs import GroupRun
from busbw.logs import Row, Table
from busbw.store import read_named_logs


def read_group_runs(names: Sequence[str], notes: list[str]) -> Iterator[tuple[str, GroupRun]]:
    """Yields the runs of all logs, each with the name of its log. A run that several logs contain counts once.

    Args:
        names: Paths of logs, runs of the store, or folders of them.
        notes: Receives one sentence for each log or run that is not used.

    Raises:
        UsageError: A named log cannot be read.
    """
    known: set[object] = set()
    unread: list[str] = []
    try:
        for log in read_named_logs(names, notes.append, unread.append):
            if not log.has_rows:
                notes.append(f"{log.source}: it has no row.")
            for table in log.tables:
                ranks = tuple((rank.rank, rank.host, rank.pid) for rank in table.rank_list)
                for group in dict.fromkeys(row.group for row in table.rows):
                    run = _group_run(table, [row for row in table.rows if row.group == group])
                    if isinstance(run, str):
                        notes.append(f"{log.source}: {run}.")
                        continue
                    # A table and a record of one run print a different number of digits.
                    identity = (ranks, group, frozenset((key, f"{time:.3g}") for key, time in run.times_us.items()))
                    if identity in known:
                        notes.append(f"{log.source}: another log has the same run.")
                        continue
                    known.add(identity)
                    yield log.source, run
    except UsageError:
        if not unread:  # with unread logs, the error only says that a folder has no other logs
            raise
    notes += unread


def _group_run(table: Table, rows: Sequence[Row]) -> GroupRun | str:
    """Returns the run of one group of ranks, or the reason why it cannot be used."""
    hosts = table.hosts_by_group.get(rows[0].group)
    if not hosts:
        return "it does not name its hosts"
    if len(table.rank_list) < (table.ranks or 0):
        return "its list of ranks is incomplete"
    if table.rank_zero_processes > 1:
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
