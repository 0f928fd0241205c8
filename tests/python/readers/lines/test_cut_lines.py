"""Lines that a terminal, a mail program or a log service wraps: each row is read right or refused."""

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from log_wrappers import QUOTES

from busbw import readers
from busbw.logs.log import Log

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
PATHS = {path.stem: path for path in (*GOLDEN.glob("nccl_tests_2_19_6_*.txt"), *(GOLDEN / "logs").glob("*.txt"))}
Wrap = Callable[[Sequence[str]], list[str]]


def cut(width: int, mark: str = "", prefix: str = "") -> Wrap:
    """Cuts long lines anywhere. Every part but the last ends with the mark, and every part has the prefix."""

    def wrap(lines: Sequence[str]) -> list[str]:
        cut_lines = []
        for line in lines:
            parts = [line[begin : begin + width] for begin in range(0, max(1, len(line)), width)]
            cut_lines += [prefix + part + mark for part in parts[:-1]] + [prefix + parts[-1]]
        return cut_lines

    return wrap


def nested(width: int, inner: str, outer: str) -> Wrap:
    """Cuts lines that have a prefix. The outer prefix stands before each part, the inner one only before the first."""
    return lambda lines: cut(width, prefix=outer)([inner + line for line in lines])


def hanging(width: int) -> Wrap:
    """Cuts long lines anywhere, and indents all parts but the first."""
    return lambda lines: [part for line in lines for part in "\n        ".join(cut(width)([line])).split("\n")]


def soft(width: int, prefix: str = "") -> Wrap:
    """Wraps long lines between words."""
    return lambda lines: [
        prefix + part for line in lines for part in textwrap.wrap(line, width, drop_whitespace=False) or [""]
    ]


WRAPS: dict[str, Wrap] = {
    **{f"terminal of {width} columns": cut(width) for width in (60, 72, 80, 100, 110, 120)},
    "shell": cut(79, "\\"),
    "quoted-printable": cut(75, "="),
    "syslog": cut(90, prefix="Nov 26 10:22:31 gpu012 nccl[4242]: "),
    "rank within host": nested(80, "[1,0]<stdout>:", "gpu012: "),
    "rank within host, wide": nested(90, "[1,0]<stdout>:", "gpu012: "),
    "hanging indent": hanging(60),
    "editor": soft(78),
    "mail": soft(76, "> "),
}


def read(folder: Path, text: str) -> Log:
    file = folder / "log"
    file.write_text(text)
    return readers.read(file)


def rows(log: Log) -> Counter[str]:
    return Counter(str((row.size_bytes, row.dtype, row.redop, row.figures)) for row in log.rows)


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("name", sorted(PATHS))
def test_a_wrapped_row_is_read_right_or_refused(tmp_path: Path, name: str, wrap: str) -> None:
    plain = readers.read(PATHS[name])
    log = read(tmp_path, "\n".join(WRAPS[wrap](PATHS[name].read_text().splitlines())) + "\n")
    assert rows(log) <= rows(plain)
    assert len(log.rows) + len(log.refused) >= len(plain.rows)


def test_rows_between_words_are_read(tmp_path: Path) -> None:
    path = PATHS["h200_x4_sweep_c1"]
    log = read(tmp_path, "\n".join(soft(100)(path.read_text().splitlines())) + "\n")
    assert rows(log) == rows(readers.read(path))


@pytest.mark.parametrize("width", [72, 90, 100])
@pytest.mark.parametrize("name", sorted(PATHS))
def test_a_wrapped_string_gives_no_wrong_row(tmp_path: Path, name: str, width: int) -> None:
    """The string of a YAML document or of Python has escaped line breaks, and is cut anywhere, even in an escape."""
    plain = readers.read(PATHS[name])
    for begin, text in (("", repr(PATHS[name].read_text())), ("    log: ", json.dumps(PATHS[name].read_text()))):
        log = read(tmp_path, "\n".join(cut(width)([begin + text])) + "\n")
        assert rows(log) <= rows(plain)


@pytest.mark.parametrize("width", [60, 72, 80, 90])
@pytest.mark.parametrize("name", ["h200_x4_sweep_c1", "nccl_tests_2_19_6_nccl"])
def test_a_string_that_was_cut_at_one_width_is_read(tmp_path: Path, name: str, width: int) -> None:
    """A document in one string, with escapes that may be cut, and documents with a string for each line."""
    text = PATHS[name].read_text()
    plain = rows(readers.read(PATHS[name]))
    documents = [repr(text), f"    log: {json.dumps(text)}", repr(text.splitlines())]
    for wrapper in ("Docker json-file", "journald -o json", "logfmt"):
        documents.append(QUOTES[wrapper](text.splitlines()))
    for document in documents:
        for mark in ("", "\\"):
            log = read(tmp_path, "\n".join(cut(width, mark)(document.splitlines())) + "\n")
            assert (rows(log), log.refused) == (plain, ())
    document = yaml.safe_dump({"items": [{"log": text}]}, width=width)
    assert rows(read(tmp_path, document)) == plain


@pytest.mark.parametrize("width", [60, 64, 68, 72, 76])
@pytest.mark.parametrize("name", ["h200_x4_sweep_c1", "nccl_tests_2_19_6_nccl"])
def test_rows_with_two_prefixes_that_were_cut_are_read(tmp_path: Path, name: str, width: int) -> None:
    plain = rows(readers.read(PATHS[name]))
    lines = PATHS[name].read_text().splitlines()
    for wrap in (nested(width, "[1,0]<stdout>:", "gpu012: "), nested(width, "(head, rank=0) [1,0]<stdout>:", "")):
        assert rows(read(tmp_path, "\n".join(wrap(lines)) + "\n")) == plain


def test_the_line_of_a_row_is_that_of_its_first_part(tmp_path: Path) -> None:
    lines = cut(72)(PATHS["h200_x4_sweep_c1"].read_text().splitlines())
    log = read(tmp_path, "\n".join(lines) + "\n")
    assert all(str(row.size_bytes) in lines[row.line - 1] for row in log.rows)


def test_rows_that_fill_their_lines_are_refused(tmp_path: Path) -> None:
    """A cut row of 132 characters and the next one look like one line of four parts."""
    lines = PATHS["h200_x4_sweep_c1"].read_text().splitlines()
    log = read(tmp_path, "\n".join(nested(66, "[1,0]<stdout>:", "gpu012: ")(lines)) + "\n")
    assert log.rows == ()
    assert "the lines are cut at 74 characters, which rows fill" in log.refused[0].reason


@pytest.mark.parametrize("note", ["WARNING: something else", "gpu1:77:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1]"])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_lines_between_the_rows_of_a_markdown_table_lose_nothing(tmp_path: Path, step: int, note: str) -> None:
    lines = (GOLDEN / "seeds" / "001_07c4158c15b1b1b2.txt").read_text().splitlines()
    plain = read(tmp_path, "\n".join(lines) + "\n")
    mixed = [part for index, line in enumerate(lines) for part in ([line, note] if index % step == 0 else [line])]
    log = read(tmp_path, "\n".join(mixed) + "\n")
    assert len(plain.rows) == 160
    assert Counter((row.size_bytes, row.variant, str(row.figures)) for row in log.rows) == Counter(
        (row.size_bytes, row.variant, str(row.figures)) for row in plain.rows
    )


def test_equal_lines_of_a_list_are_all_read(tmp_path: Path) -> None:
    row = next(line for line in PATHS["h200_x4_sweep_c1"].read_text().splitlines() if " 4194304 " in line)
    for text in (json.dumps({"lines": [f"{row}\n"] * 3}), repr([f"{row}\n".encode()] * 3)):
        assert len(read(tmp_path, text + "\n").rows) == 3
