"""Reads the text table of nccl-tests since 2.17, which this program prints too: 13 columns, or 21 with -I."""

import re
from pathlib import Path

from busbw.logs import Figure, Log, Placement, Rank, Refusal, Row, Table

_STARTING = re.compile(r"^# Collective test starting: (\w+)_perf")
_RANK = re.compile(r"^#\s+Rank\s+(\d+) Group\s+(\d+) Pid\s+(\d+) on\s+(\S+) device\s+(\d+) \[([^]]*)\]\s*(.*)")
_GROUP = re.compile(r"^# Group (\d+): (\d+) ranks")
_CPU_TIME = re.compile(r"^#\s+size\s+count\s.*\bcputime\b")  # -C shows it in place of the time
_CONCLUDED = re.compile(r"^# Collective test concluded")
_SIDE_COLUMNS, _SIDE_COLUMNS_PER_ITERATION = 4, 8  # time algbw busbw #wrong, and i_min i_max i_p99 i_cv%
_TIMESTAMP_COLUMNS = 2


def recognises(beginning: str) -> bool:
    """The program's name stands in the log since 2025."""
    return any(_STARTING.match(line) for line in beginning.splitlines())


def read(path: Path) -> Log:
    """The first table in the file; a line is a row with both placements."""
    rows: list[Row] = []
    refused: list[Refusal] = []
    ranks: list[Rank] = []
    warnings: list[str] = []
    collective, group, complete, cut, cpu_time = "", 0, False, False, False
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        if found := _STARTING.match(line):
            if collective:
                warnings.append(f"line {number}: another table begins; give each table in a file of its own")
                break
            collective = found[1]
        elif found := _RANK.match(line):
            ranks.append(_rank(found))
        elif line.startswith("#") and line.rstrip().endswith("..."):
            cut = True  # the device list is cut at 2048 bytes per process
        elif found := _GROUP.match(line):
            group = int(found[1])
        elif _CPU_TIME.match(line):
            cpu_time = True
        elif _CONCLUDED.match(line):
            complete = True
        elif line.strip() and not line.lstrip().startswith("#"):
            members = None if cut else sum(rank.group == group for rank in ranks) or None
            try:
                rows.append(_row(number, collective, line.split(), group, members, cpu_time))
            except ValueError as error:
                refused.append(Refusal(line=number, text=line, reason=str(error)))
    table = Table(
        format="nccl-tests text",
        program=f"{collective}_perf",
        collective=collective,
        ranks=None if cut else len(ranks) or None,
        rank_list=tuple(ranks),
        rows=tuple(rows),
        complete=complete,
    )
    return Log(
        source=str(path),
        tables=(table,),
        candidate_rows=len(rows) + len(refused),
        refused=tuple(refused),
        warnings=tuple(warnings),
    )


def _rank(found: "re.Match[str]") -> Rank:
    return Rank(
        rank=int(found[1]),
        group=int(found[2]),
        pid=int(found[3]),
        host=found[4],
        device=int(found[5]),
        bus_id=found[6],
        device_name=found[7] or None,
    )


def _row(number: int, collective: str, words: list[str], group: int, ranks: int | None, cpu_time: bool) -> Row:
    """One line. Raises ValueError where the words are not a row."""
    if collective == "hypercube":
        words = [*words[:3], "none", *words[3:]]  # its operator column is blank
    counts = {5 + 2 * side: side for side in (_SIDE_COLUMNS, _SIDE_COLUMNS_PER_ITERATION)}
    side = counts.get(len(words)) or counts.get(len(words) - _TIMESTAMP_COLUMNS)
    if side is None:
        raise ValueError(f"{len(words)} columns are no row")
    root = int(words[4])
    sides: dict[Placement, list[str]] = {"out_of_place": words[5 : 5 + side], "in_place": words[5 + side :]}
    return Row(
        line=number,
        collective=collective,
        size_bytes=int(words[0]),
        count=int(words[1]),
        dtype=words[2],
        redop=None if words[3] == "none" else words[3],
        root=None if root < 0 else root,
        ranks=ranks,
        group=group,
        figures={
            placement: _figure(values[:_SIDE_COLUMNS], cpu_time)
            for placement, values in sides.items()
            if values[0] != "N/A"  # --placement: not measured
        },
    )


def _figure(words: list[str], cpu_time: bool) -> Figure:
    """N/A says nothing about why there is no figure; not checked is the weaker claim."""
    time_us, algbw, busbw, wrong = words
    return Figure(
        time_us=None if cpu_time else float(time_us),
        cpu_time_us=float(time_us) if cpu_time else None,
        algbw_gbps=float(algbw),
        busbw_gbps=float(busbw),
        check="not_checked" if wrong == "N/A" else "checked",
        wrong_elements=None if wrong == "N/A" else int(float(wrong)),
    )
