"""Recognizes the singleton trap: processes that were started together and measured alone, one rank each."""

from collections.abc import Iterator

import msgspec

from busbw.logs.log import Table
from busbw.readers.tables.events import Event, LogNote, TableChunk
from busbw.units import count_text

_MAX_SINGLETONS = 10_000


class SingletonTables:
    """Tables of one rank of a log, up to a limit."""

    def __init__(self) -> None:
        self._tables: list[Table] = []
        """The tables, without their rows."""

    def add(self, event: Event) -> None:
        """Adds the event if it is the end of a table of one rank."""
        if len(self._tables) == _MAX_SINGLETONS or not isinstance(event, TableChunk) or not event.is_last:
            return
        if event.table.ranks == 1 and len(event.table.rank_list) == 1:
            self._tables.append(msgspec.structs.replace(event.table, rows=()))

    def notes(self) -> Iterator[LogNote]:
        """Yields a note if different processes wrote tables with equal settings, probably meant as one run."""
        if len(self._tables) < 2:
            return
        processes = {(table.rank_list[0].pid, table.rank_list[0].host) for table in self._tables}
        runs = {str(table.settings) + str(table.program) for table in self._tables}
        if len(processes) > 1 and len(runs) == 1:
            yield LogNote(
                f"{count_text(len(self._tables), 'table')} of one rank each with the same settings: if they were "
                "started together, the processes did not find each other and each measured alone (the singleton "
                "trap); build nccl-tests with MPI=1 and use its mpirun"
            )
