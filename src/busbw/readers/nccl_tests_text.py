"""Reads the text table of nccl-tests since 2.17, which this program prints too: 13 columns, or 21 with -I."""

import re
from pathlib import Path

from busbw.readers.log import Log
from busbw.records import Check, Row

_STARTING = re.compile(r"^# Collective test starting: (\w+)_perf")
_RANK = re.compile(r"^#\s+Rank\s+(\d+) Group\s+(\d+) Pid")
_GROUP = re.compile(r"^# Group (\d+): (\d+) ranks")
_CPU_TIME = re.compile(r"^#\s+size\s+count\s.*\bcputime\b")  # -C shows it in place of the time
_CONCLUDED = re.compile(r"^# Collective test concluded")
_SIDE_COLUMNS, _SIDE_COLUMNS_PER_ITERATION = 4, 8  # time algbw busbw #wrong, and i_min i_max i_p99 i_cv%
_TIMESTAMP_COLUMNS = 2


def recognises(beginning: str) -> bool:
    """The program's name stands in the log since 2025."""
    return any(_STARTING.match(line) for line in beginning.splitlines())


def read(path: Path) -> Log:
    """Rows of the first table in the file; both placements of a line become a row each."""
    rows: list[Row] = []
    left_out: list[str] = []
    collective, ranks_of_group, group, complete, cut, cpu_time = "", dict[int, int](), 0, False, False, False
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        if found := _STARTING.match(line):
            if collective:
                left_out.append(f"line {number}: another table begins; give each table in a file of its own")
                break
            collective = found[1]
        elif found := _RANK.match(line):
            ranks_of_group[int(found[2])] = ranks_of_group.get(int(found[2]), 0) + 1
        elif line.startswith("#") and line.rstrip().endswith("..."):
            cut = True  # the device list is cut at 2048 bytes per process
        elif found := _GROUP.match(line):
            group = int(found[1])
        elif _CPU_TIME.match(line):
            cpu_time = True
        elif _CONCLUDED.match(line):
            complete = True
        elif line.strip() and not line.lstrip().startswith("#"):
            try:
                rows += _rows(collective, line.split(), group, 0 if cut else ranks_of_group.get(group, 0), cpu_time)
            except ValueError as error:
                left_out.append(f"line {number}: {error}")
    return Log(rows=rows, complete=complete, left_out=left_out)


def _rows(collective: str, words: list[str], group: int, ranks: int, cpu_time: bool) -> list[Row]:
    """The row's placements. Raises ValueError where the words are not a row."""
    if collective == "hypercube":
        words = [*words[:3], "none", *words[3:]]  # its operator column is blank
    counts = {5 + 2 * side: side for side in (_SIDE_COLUMNS, _SIDE_COLUMNS_PER_ITERATION)}
    side = counts.get(len(words)) or counts.get(len(words) - _TIMESTAMP_COLUMNS)
    if side is None:
        raise ValueError(f"{len(words)} columns are no row")
    if ranks < 1:
        raise ValueError("the device list is cut or missing, so the number of ranks is not known")
    size_bytes, count, root = int(words[0]), int(words[1]), int(words[4])
    made = []
    for placement, first in (("out_of_place", 5), ("in_place", 5 + side)):
        time_us, algbw, busbw, wrong = words[first : first + _SIDE_COLUMNS]
        if time_us == "N/A":
            continue  # --placement: not measured
        made.append(
            Row(
                collective=collective,
                requested_bytes=size_bytes,
                size_bytes=size_bytes,
                count=count,
                dtype=words[2],
                redop=None if words[3] == "none" else words[3],
                root=None if root < 0 else root,
                placement="out_of_place" if placement == "out_of_place" else "in_place",
                group=group,
                ranks=ranks,
                cycle=0,
                time_us=None if cpu_time else float(time_us),
                cpu_time_us=float(time_us) if cpu_time else None,
                algbw_gbps=float(algbw),
                busbw_gbps=float(busbw),
                stats=None,
                stopped_by="iterations",
                check=_check(wrong),
                samples_us=[],
                warnings=[],
                timestamp="",
            )
        )
    return made


def _check(wrong: str) -> Check:
    """N/A says nothing about why there is no figure; not checked is the weaker claim."""
    if wrong == "N/A":
        return Check(state="not_checked", wrong_elements=None, wrong_ranks=None, policy=None, first_wrong=[])
    return Check(state="checked", wrong_elements=int(float(wrong)), wrong_ranks=None, policy=None, first_wrong=[])
