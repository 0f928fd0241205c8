"""Determines the collective and the number of ranks of a table from the log's text and the table's figures.

Two ratios are evidence: busbw / algbw, and size / (count x element bytes). The second one is the number of shares in
the size: for some collectives the count is the share of one rank, and the size is that of the shares of all ranks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from busbw.collectives import collectives
from busbw.errors import UsageError
from busbw.readers.tables.arithmetic import RatioInterval
from busbw.readers.tables.collectives import names_with_columns, rank_bounds
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.layouts import BOTH, ColumnLayout, RawRow, share_count
from busbw.readers.tables.quantities import ELEMENT_BYTES, NO_NUMBER
from busbw.readers.tables.uniform_rows import UniformRows
from busbw.units import count_text

_MAX_RATIO_OF_ONE_RANK = 0.02
"""Maximum busbw / algbw that counts as 0, which only one rank has. Two ranks have at least 0.5."""


class TableIdentity(NamedTuple):
    """Collective and number of ranks of a table. None if unknown."""

    collective: str | None
    ranks: int | None
    warnings: tuple[str, ...] = ()
    ranks_from: str = ""
    """Source of the number of ranks, as text. Empty if it is the device list or no number is known."""


class _ColumnEvidence(NamedTuple):
    collectives: frozenset[str]
    """Collectives that match the columns of all rows."""
    shares: int | None
    """Number of shares in the size: one per rank for some collectives, and 1 for all others. None if unclear."""


def identify(
    rows: Sequence[RawRow], ratio: RatioInterval | None, facts: TableFacts, claimed_collective: str | None, source: str
) -> TableIdentity:
    """Combines the evidence of program name, headings, columns and arithmetic.

    Args:
        rows: Rows without contradictions.
        ratio: busbw / algbw of the table. None if unknown.
        facts: Facts that the text of the log states.
        claimed_collective: Collective that the user states.
        source: Name of the log for errors.

    Raises:
        UsageError: The user claims a collective that the log contradicts.
    """
    evidence = _evaluate_columns(rows, facts)
    listed_ranks = None if _has_groups(facts) else _count_listed_ranks(facts)
    possible = frozenset(
        name for name in evidence.collectives if _is_possible(name, ratio, evidence.shares, listed_ranks)
    )
    if claimed_collective:
        _require_possible_claim(claimed_collective, possible, ratio, facts, source)
    warnings = []
    collective = claimed_collective or facts.stated_collective or _choose_collective(rows, possible, facts)
    if facts.stated_collective and facts.stated_collective not in possible and not claimed_collective:
        warnings.append(
            f"the log states {facts.stated_collective}, but {_ratio_text(ratio)} its columns fit "
            f"{_names_text(possible)}; check if two logs are mixed"
        )
    ranks, ranks_from, rank_warnings = _infer_ranks(collective, possible, ratio, evidence.shares, facts)
    return TableIdentity(collective, ranks, (*warnings, *rank_warnings), ranks_from)


def stated_identity(facts: TableFacts) -> TableIdentity | None:
    """Returns the identity that the header states. None if it does not state the collective and all ranks of one group.

    `identify` returns the same if the rows agree with it, see `agrees_with_columns`. The bus factor is known
    even if no row is precise enough to show it.
    """
    ranks = _count_listed_ranks(facts)
    is_complete = facts.stated_collective is not None and ranks is not None and ranks > 1
    return TableIdentity(facts.stated_collective, ranks) if is_complete and not _has_groups(facts) else None


def agrees_with_columns(identity: TableIdentity, rows: UniformRows) -> bool:
    """True if sizes, counts, operators and roots of all rows are those of a collective on this number of ranks."""
    assert identity.collective is not None
    assert identity.ranks is not None
    shares = identity.ranks if collectives()[identity.collective].size == "shares" else 1
    has_sizes = all(
        count is not None and size_bytes == count * ELEMENT_BYTES[dtype] * shares
        for size_bytes, count, dtype in zip(rows.sizes_bytes, rows.counts, rows.dtypes, strict=True)
    )
    return has_sizes and all(
        identity.collective in names_with_columns(has_operator=redop is not None, has_root=root is not None)
        for redop, root in set(zip(rows.redops, rows.roots, strict=True))
    )


def _evaluate_columns(rows: Sequence[RawRow], facts: TableFacts) -> _ColumnEvidence:
    """Returns the evidence of the operator and root columns and of size / (count x element bytes)."""
    share_counts = {count for raw in rows if (count := share_count(raw)) is not None}
    shares = share_counts.pop() if len(share_counts) == 1 else None
    if shares is not None and (shares < 1 or shares != int(shares)):
        shares = None
    if facts.columns.has_one_placement or not facts.columns.has_type:
        names = frozenset(collectives())  # such logs have no columns for operator and root
    else:
        names = frozenset(collectives()).intersection(*_names_by_columns(rows, facts.columns))
    return _ColumnEvidence(names, None if shares is None else int(shares))


def _names_by_columns(rows: Sequence[RawRow], columns: ColumnLayout) -> list[frozenset[str]]:
    """Returns the collectives that match a row, for each combination of operator and root in the rows."""
    either = (False, True)
    return [
        frozenset().union(
            *(
                names_with_columns(has_operator=with_operator, has_root=with_root)
                for with_operator in (either if columns.omits_operator else (has_operator,))
                for with_root in (either if columns.omits_root else (has_root,))
            )
        )
        for has_operator, has_root in {(raw.redop is not None, raw.root is not None) for raw in rows}
    ]


def _is_checked_in_place(rows: Sequence[RawRow], columns: ColumnLayout) -> bool | None:
    """True if rows that are checked out of place are checked in place too. None if rows differ or are not checked."""
    if not set(BOTH) <= set(columns.placements):
        return None
    out_of_place, in_place = map(columns.placements.index, BOTH)
    checks = {
        raw.placement_texts[in_place].wrong not in NO_NUMBER
        for raw in rows
        if len(raw.placement_texts) == 2
        and raw.placement_texts[out_of_place].wrong not in {"", *NO_NUMBER}
        and raw.placement_texts[in_place].time not in NO_NUMBER
    }
    return checks.pop() if len(checks) == 1 else None


def _is_possible(name: str, ratio: RatioInterval | None, shares: int | None, listed_ranks: int | None) -> bool:
    """True if the arithmetic allows a collective. `listed_ranks`: None if the device list does not state them."""
    collective = collectives()[name]
    has_shares = collective.size == "shares"
    if shares is not None and shares > 1 and not has_shares:
        return False
    if ratio is None and shares == 1 and has_shares and listed_ranks is not None and listed_ranks > 1:
        return False  # the size has a share of each rank
    if ratio is None or ratio.contains(0.0):
        return True  # no bandwidth is known, or there is one rank
    if shares is not None and has_shares:
        return ratio.contains(collective.bandwidth_ratio_of(shares))
    return rank_bounds(collective, *_widen(ratio)) is not None


def _widen(ratio: RatioInterval) -> tuple[float, float]:
    """Extends the interval slightly, so that it includes an exact factor at its edge."""
    return ratio.low * (1 - 1e-5), ratio.high * (1 + 1e-5)


def _choose_collective(rows: Sequence[RawRow], possible: frozenset[str], facts: TableFacts) -> str | None:
    """Returns the collective if only one is possible, or if the hint names a possible one. None otherwise."""
    if facts.hint:
        return facts.hint if facts.hint in possible else None
    # A log of a collective that is always named would have stated it.
    candidates = {name for name in possible if not collectives()[name].always_named}
    # Collectives with no defined result in place are not checked there.
    if (is_checked := _is_checked_in_place(rows, facts.columns)) is not None:
        candidates = {name for name in candidates if collectives()[name].checked_in_place == is_checked}
    return next(iter(candidates)) if len(candidates) == 1 else None


def _infer_ranks(
    collective: str | None, possible: frozenset[str], ratio: RatioInterval | None, shares: int | None, facts: TableFacts
) -> tuple[int | None, str, list[str]]:
    """Returns the number of ranks, its source (see `TableIdentity.ranks_from`) and warnings.

    The device list has priority if the figures allow it. Then follow the figures, and then a number in the text.
    """
    listed = _count_listed_ranks(facts)
    if _has_groups(facts):
        return listed, "", []  # each group has its own ratio
    low, high = _allowed_ranks(collective, possible, ratio, shares)
    from_figures = low if low == high else None
    if listed is not None:
        if _is_within(listed, low, high):
            return listed, "", []
        return (
            from_figures,
            "busbw / algbw",
            [
                f"the device list has {count_text(listed, 'rank')}, but {_ratio_text(ratio)} the figures fit "
                f"{_rank_range_text(low, high)}; the list may be cut"
            ],
        )
    claimed = facts.claimed_gpus
    if from_figures is not None:
        rank_warnings = []
        if claimed is not None and claimed != from_figures:
            rank_warnings.append(
                f"{facts.claimed_by} states {claimed} GPUs, but {_ratio_text(ratio)} the figures fit "
                f"{count_text(from_figures, 'rank')}; busbw uses this number"
            )
        ranks_from = "size / count" if shares is not None and shares > 1 else "busbw / algbw"
        return from_figures, ranks_from, rank_warnings
    if claimed is not None and _is_within(claimed, low, high):
        return claimed, facts.claimed_by, []
    return None, "", []


def _count_listed_ranks(facts: TableFacts) -> int | None:
    """Returns the number of ranks by the device list. None if the list is cut or missing."""
    if len(facts.rank_zero_processes) > 1:
        return 1  # each process measured alone
    if not facts.ranks or facts.list_is_cut:
        return None
    return len({(entry.rank, entry.group) for entry in facts.ranks})


def _has_groups(facts: TableFacts) -> bool:
    return bool(facts.group_ranks) or len({rank.group for rank in facts.ranks}) > 1


def _is_within(ranks: int, low: int, high: int) -> bool:
    """True if a number of ranks is within the bounds of `_allowed_ranks`."""
    return low <= ranks and (ranks <= high or high == 0)


def _allowed_ranks(
    collective: str | None, possible: frozenset[str], ratio: RatioInterval | None, shares: int | None
) -> tuple[int, int]:
    """Returns the minimum and maximum number of ranks that the figures allow. A maximum of 0 means unbounded."""
    if ratio is not None and ratio.contains(0.0) and ratio.high < _MAX_RATIO_OF_ONE_RANK:
        return (1, 1)
    if shares is not None and shares > 1 and (not collective or collectives()[collective].size == "shares"):
        return (shares, shares)
    names = [collective] if collective else sorted(possible)
    if ratio is None or not names:
        return (1, 0)
    all_bounds = (rank_bounds(collectives()[name], *_widen(ratio)) for name in names)
    possible_bounds = [bounds for bounds in all_bounds if bounds is not None]
    if not possible_bounds:
        return (1, 0)
    is_unbounded = any(high == 0 for _, high in possible_bounds)
    return (min(low for low, _ in possible_bounds), 0 if is_unbounded else max(high for _, high in possible_bounds))


def _require_possible_claim(
    claimed_collective: str, possible: frozenset[str], ratio: RatioInterval | None, facts: TableFacts, source: str
) -> None:
    if facts.stated_collective and facts.stated_collective != claimed_collective:
        raise UsageError(
            f"{source} states {facts.stated_collective}, not {claimed_collective}", remedy="leave out --collective"
        )
    if claimed_collective not in possible:
        raise UsageError(
            f"{source} cannot be {claimed_collective}: {_ratio_text(ratio)} its columns fit {_names_text(possible)}",
            remedy="correct --collective or leave it out",
        )


def _ratio_text(ratio: RatioInterval | None) -> str:
    return f"with busbw / algbw = {ratio.middle:.4g}" if ratio else "by type, operator and root"


def _names_text(names: frozenset[str]) -> str:
    return " or ".join(sorted(names)) or "no collective"


def _rank_range_text(low: int, high: int) -> str:
    if low == high:
        return count_text(low, "rank")
    return f"{low} to {high} ranks" if high else f"{low} ranks or more"
