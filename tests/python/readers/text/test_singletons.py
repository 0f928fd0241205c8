"""Several tables of one rank get a note only if they may be the processes of one run."""

import pytest

from busbw.logs.log import Rank, Table
from busbw.readers.tables.events import TableChunk
from busbw.readers.text import singletons
from busbw.readers.text.singletons import SingletonTables


def end_of_table(pid: int, ranks: int = 1, iterations: str = "20") -> TableChunk:
    rank_list = tuple(Rank(rank=rank, host="a", pid=pid) for rank in range(ranks))
    return TableChunk(Table(format="a test", ranks=ranks, rank_list=rank_list, settings={"iters": iterations}))


@pytest.mark.parametrize(
    ("chunks", "sentence_beginnings"),
    [
        ([end_of_table(1), end_of_table(2), end_of_table(3)], ["3 tables of one rank each"]),
        ([end_of_table(1)], []),
        ([end_of_table(1), end_of_table(1)], []),
        ([end_of_table(1), end_of_table(2, iterations="5")], []),
        ([end_of_table(1), end_of_table(2, ranks=8)], []),
        ([end_of_table(1), end_of_table(2)._replace(is_last=False)], []),
    ],
    ids=["one run", "one table", "one process", "other settings", "several ranks", "an open table"],
)
def test_notes(chunks: list[TableChunk], sentence_beginnings: list[str]) -> None:
    tables = SingletonTables()
    for chunk in chunks:
        tables.add(chunk)
    sentences = [note.sentence for note in tables.notes()]
    assert len(sentences) == len(sentence_beginnings)
    assert all(map(str.startswith, sentences, sentence_beginnings))


def test_the_number_of_tables_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(singletons, "_MAX_SINGLETONS", 2)
    tables = SingletonTables()
    for pid in range(5):
        tables.add(end_of_table(pid))
    (note,) = tables.notes()
    assert note.sentence.startswith("2 tables of one rank each")
