"""Sentence about the correctness of a run's data, which `busbw run`, `launch` and `replay` print at the end."""

from collections.abc import Iterable

from busbw.errors import ExitCode
from busbw.logs.log import PLACEMENT_WORDS, ended_early_text
from busbw.records import RowRecord, RunRecords
from busbw.units import count_text, size_text

_MAX_NAMED_ROWS = 3
"""Maximum number of wrong rows that the sentence names."""
_COMPLETE_CODES = (ExitCode.GOOD, ExitCode.WRONG_DATA, ExitCode.SLOWER_THAN_DEMANDED)
"""Exit codes of a run with all its rows."""


def correctness_sentence(run: RunRecords, *, exit_code: int | None = None, ending_words: str = "was killed") -> str:
    """Returns the sentence. It counts rows as the table shows them: both placements of a size are one row.

    Args:
        run: The records of the run.
        exit_code: Exit code of the command, which may report a process that was lost after the record was complete.
            None if only the record counts.
        ending_words: Verb phrase for an end that the record does not explain, such as "was killed".
    """
    measurements = run.rows  # one for each placement
    if not measurements:
        return "Data: nothing was measured."
    row_count = _count_rows(measurements)
    rows_text = count_text(row_count, "row")
    wrong = [row for row in measurements if row.check.wrong_elements]
    unchecked = [row for row in measurements if row.check.state == "not_checked"]
    undefined = [row for row in measurements if row.check.state == "not_applicable"]

    if wrong:
        named_rows = "; ".join(_wrong_text(row) for row in wrong[:_MAX_NAMED_ROWS])
        more = f"; and {len(wrong) - _MAX_NAMED_ROWS} more" if len(wrong) > _MAX_NAMED_ROWS else ""
        text = f"WRONG DATA in {_count_rows(wrong)} of {rows_text}: {named_rows}{more}."
    elif len(unchecked) == len(measurements):
        text = f"not checked: {rows_text} measured without a data check (-c 0)."
    elif len(unchecked) + len(undefined) == len(measurements):
        text = f"not checked: none of the {rows_text} has a defined and checked result."
    else:
        policies = {row.check.policy for row in measurements if row.check.policy}
        exactness = "every bit"
        if policies != {"exact"}:
            exactness = "every bit, within the exactness of the check (policy in the record)"
        checked_count = _count_rows(row for row in measurements if row.check.state == "checked")
        checked_text = rows_text
        if checked_count < row_count:
            checked_text = f"{count_text(checked_count, 'checked row')} of {row_count}"
        text = f"correct: all {checked_text} right, {exactness}."
    if unchecked and len(unchecked) < len(measurements):
        text += f" {count_text(len(unchecked), 'measurement')} not checked."
    if undefined:
        text += f" {count_text(len(undefined), 'measurement')} without a defined result (N/A)."
    return f"Data: {_ending_clause(run, exit_code, ending_words)}{text}"


def _count_rows(measurements: Iterable[RowRecord]) -> int:
    """Returns the number of rows of the table that have these measurements."""
    return len(set(map(_row_key, measurements)))


def _row_key(row: RowRecord) -> tuple[object, ...]:
    """Returns a key that is equal for the two placements of one row of the table."""
    return (row.collective, row.ranks, row.cycle, row.group, row.requested_bytes, row.dtype, row.redop, row.root)


def _wrong_text(row: RowRecord) -> str:
    row_text = " ".join(filter(None, [size_text(row.size_bytes), row.dtype, row.redop, PLACEMENT_WORDS[row.placement]]))
    element = row.check.first_wrong[0] if row.check.first_wrong else None
    location = f", first at rank {element.rank}, {element.place}, index {element.index}" if element else ""
    return f"{row_text} ({count_text(row.check.wrong_elements or 0, 'element')}{location})"


def _ending_clause(run: RunRecords, exit_code: int | None, ending_words: str) -> str:
    """Returns a clause about an early end, which may mean missing rows. Empty for a complete run."""
    if run.end is None:
        return f"the run {ending_words}; until then "
    if run.end.exit_code not in _COMPLETE_CODES:
        return f"{ended_early_text(run.end.reason)}; until then "
    if exit_code is not None and exit_code not in _COMPLETE_CODES:
        return f"the run {ending_words} after its last row; "
    return ""
