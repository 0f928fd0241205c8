"""Reads text line by line: tables of nccl-tests and similar tools within any other output, and published tables.

Most lines of a long log are rows of one process, lines of headers after a prefix that repeats, or belong to no table.
Shortcuts read them without cleaning. All other lines take the general way: `LineReader` removes their wrappers, and
`CleanLineReader` classifies them. Both ways give equal results. Only the open tables are kept in memory.
"""

from collections.abc import Iterable, Iterator

from busbw.logs.log import Refusal
from busbw.readers.lines.cut_lines import CutRule, find_cut_rule
from busbw.readers.lines.line_stream import LineStream
from busbw.readers.lines.source import MAX_LINE_BYTES, LogSource
from busbw.readers.tables.events import Event, UserClaims
from busbw.readers.tables.uniform_rows import ROW_ENDS
from busbw.readers.tables.unrelated_lines import UnrelatedShapes, shape_of
from busbw.readers.text.clean_line_reader import CleanLineReader
from busbw.readers.text.line_reader import LineReader
from busbw.readers.text.row_forms import is_clean_row
from busbw.readers.text.singletons import SingletonTables
from busbw.readers.text.uniform_row_reader import UniformRowReader


def recognizes(beginning: str) -> bool:
    """True for any text, because a table may begin anywhere."""
    return "\0" not in beginning


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables, refused rows and notes of the log."""
    cut_rule = find_cut_rule(source.beginning)
    if cut_rule and cut_rule.is_ambiguous:
        reason = f"the lines are cut at {cut_rule.width} characters, which rows fill; save the log without line breaks"
        yield Refusal(line=1, text="", reason=reason)
        cut_rule = None
    yield from stream_lines(source.blocks(), source.name, claims, cut_rule)


def stream_lines(
    blocks: Iterable[bytes], source: str, claims: UserClaims, cut_rule: CutRule | None = None
) -> Iterator[Event]:
    """Reads lines, or blocks of lines, from any source, like `stream`. Cut lines are joined by the rule."""
    singletons = SingletonTables()
    for event in _stream_tables(LineStream(blocks, cut_rule), source, claims):
        singletons.add(event)
        yield event
    yield from singletons.notes()


def _stream_tables(lines: LineStream, source: str, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables and refused rows. A line takes the first of five shortcuts that fits, or the general way."""
    clean_lines = CleanLineReader(source, claims)
    reader = LineReader(claims, lines, clean_lines)
    uniform_rows = UniformRowReader(lines)
    unrelated = UnrelatedShapes()
    # Prefix, wrapper and assembler of the last row. Only a general line changes them.
    prefix, wrapper, assembler = clean_lines.prefix, reader.wrapper, clean_lines.last_row_assembler
    for number, line in lines:
        if len(line) >= MAX_LINE_BYTES:
            yield Refusal(line=number, text="", reason=f"the line has more than {MAX_LINE_BYTES >> 20} MiB")
        whole_text = line.decode("utf-8", errors="replace")
        # `remove_from` returns an empty text for a line with another wrapper.
        text = (wrapper and wrapper.remove_from(whole_text)) or whole_text
        text_after_prefix = text.removeprefix(prefix) if text.startswith(prefix) else ""
        if text_after_prefix.endswith(ROW_ENDS) and assembler.accepts_clean_rows:
            rows = uniform_rows.read(number, text, prefix, wrapper)
            if rows is not None:
                yield from assembler.add_uniform_rows(rows)
                continue
        if text_after_prefix.lstrip()[:1] == "#" and reader.is_plain_remark(text_after_prefix):
            yield from clean_lines.read_remark(number, text_after_prefix)
            continue
        shape = shape_of(line)
        if shape in unrelated and reader.expects_nothing:
            continue
        words = text_after_prefix.split()
        is_clean = is_clean_row(text_after_prefix, words)
        if is_clean and text.isascii() and text[-1] == "\n" and assembler.accepts_clean_rows:
            yield from assembler.add_row(number, text, words)
            continue
        if reader.ignores(whole_text):
            unrelated.add(shape)
            continue
        yield from reader.read(number, whole_text)
        prefix, wrapper, assembler = clean_lines.prefix, reader.wrapper, clean_lines.last_row_assembler
    yield from reader.finish()
