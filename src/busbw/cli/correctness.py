"""Verdict on the correctness of a run's data, in one sentence."""

from busbw.logs import PLACEMENT_WORDS
from busbw.records import RowRecord, RunRecords
from busbw.units import count_text, size_text

_MAX_NAMED = 3


def correctness_sentence(run: RunRecords, *, cut_short: str = "was killed") -> str:
    """Returns the verdict on correctness. It counts table rows: both placements of one size and configuration.

    Args:
        run: The records of the run.
        cut_short: Predicate for a run without an end record, such as "was killed".
    """
    measured = run.rows
    if not measured:
        return "Verdict: nothing was measured."
    rows = count_text(len({_table_row(row) for row in measured}), "row")
    wrong = [row for row in measured if row.check.wrong_elements]
    unchecked = [row for row in measured if row.check.state == "not_checked"]
    undefined = [row for row in measured if row.check.state == "not_applicable"]

    if wrong:
        named = "; ".join(_wrong_text(row) for row in wrong[:_MAX_NAMED])
        more = f"; and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
        wrong_rows = len({_table_row(row) for row in wrong})
        text = f"WRONG DATA in {wrong_rows} of {rows}: {named}{more}."
    elif len(unchecked) == len(measured):
        text = f"not checked: {rows} measured without a data check (-c 0)."
    elif len(unchecked) + len(undefined) == len(measured):
        text = f"not checked: none of the {rows} has a defined and checked result."
    else:
        policies = {row.check.policy for row in measured if row.check.policy}
        exactness = (
            "every bit"
            if policies == {"exact"}
            else "every bit, within the exactness of the check (policy in the record)"
        )
        text = f"correct: all {rows} right, {exactness}."
    if unchecked and len(unchecked) < len(measured):
        text += f" {count_text(len(unchecked), 'measurement')} not checked."
    if undefined:
        text += f" {count_text(len(undefined), 'measurement')} without a defined result (N/A)."
    return f"Verdict: {_ending_sentence(run, cut_short)}{text}"


def _table_row(row: RowRecord) -> tuple[object, ...]:
    return (row.cycle, row.group, row.requested_bytes, row.dtype, row.redop, row.root)


def _wrong_text(row: RowRecord) -> str:
    row_text = " ".join(filter(None, [size_text(row.size_bytes), row.dtype, row.redop, PLACEMENT_WORDS[row.placement]]))
    first = row.check.first_wrong[0] if row.check.first_wrong else None
    location = f", first at rank {first.rank}, {first.place}, index {first.index}" if first else ""
    return f"{row_text} ({count_text(row.check.wrong_elements or 0, 'element')}{location})"


def _ending_sentence(run: RunRecords, cut_short: str) -> str:
    """Returns a clause about an early end, which means missing rows. Empty for a complete run."""
    if run.end is None:
        return f"the run {cut_short}; until then "
    if run.end.exit_code in (0, 1, 5):
        return ""
    return f"the run ended early ({run.end.reason}); until then "
