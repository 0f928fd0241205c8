"""Determines the collective and the number of ranks of a table from the log's text and the table's figures."""

from collections.abc import Sequence
from typing import NamedTuple

from busbw.errors import UsageError
from busbw.readers.tables import collectives
from busbw.readers.tables.arithmetic import RatioInterval
from busbw.readers.tables.headers import TableFacts
from busbw.readers.tables.layouts import RawRow, share_count
from busbw.units import count_text


class TableIdentity(NamedTuple):
    """Collective and number of ranks of a table. None if unknown."""

    collective: str | None
    ranks: int | None
    warnings: tuple[str, ...] = ()
    ranks_from: str = ""
    """Source of the number of ranks; empty for a device list."""


class _ShapeEvidence(NamedTuple):
    names: frozenset[str]
    """Collectives that match the columns of all rows."""
    shares: int | None
    """Size / count: the number of ranks for collectives with one share per rank, 1 for others. None if unclear."""


def identify(
    raws: Sequence[RawRow], ratio: RatioInterval | None, facts: TableFacts, claim: str | None, source: str
) -> TableIdentity:
    """Combines the evidence of program name, headings, columns and arithmetic.

    Raises:
        UsageError: The user claims a collective that the log contradicts.
    """
    shape = _shape(raws, facts)
    possible = frozenset(name for name in shape.names if _fits(name, ratio, shape.shares))
    if claim:
        _require_claim(claim, possible, ratio, facts, source)
    warnings = []
    collective = claim or facts.stated_collective or _single_possible(raws, possible, facts.hint)
    if facts.stated_collective and facts.stated_collective not in possible and not claim:
        warnings.append(
            f"the log states {facts.stated_collective}, but {_ratio_text(ratio)} its columns fit {_list(possible)}; "
            "check if two logs are mixed"
        )
    ranks, ranks_from, rank_warnings = _ranks(collective, possible, ratio, shape.shares, facts)
    return TableIdentity(collective, ranks, (*warnings, *rank_warnings), ranks_from)


def _shape(raws: Sequence[RawRow], facts: TableFacts) -> _ShapeEvidence:
    shares = {share for raw in raws if (share := share_count(raw)) is not None}
    share = shares.pop() if len(shares) == 1 else None
    if share is not None and (share < 1 or share != int(share)):
        share = None
    kinds = {(raw.redop is not None, raw.root is not None) for raw in raws}
    if facts.columns.single or not facts.columns.has_type:
        kinds = {(reduces, has_root) for reduces in (True, False) for has_root in (True, False)}  # no such columns
        names = frozenset().union(*(collectives.by_shape(*kind) for kind in kinds))
    else:
        names = frozenset(collectives.ALL).intersection(*(collectives.by_shape(*kind) for kind in kinds))
    return _ShapeEvidence(names, None if share is None else int(share))


def _fits(name: str, ratio: RatioInterval | None, share: int | None) -> bool:
    """True if the arithmetic allows a collective."""
    has_shares = collectives.has_shares(name)
    if share is not None and share > 1 and not has_shares:
        return False
    if ratio is None or ratio.meets(0.0):
        return True  # no bandwidth to judge by, or one rank
    if share is not None and has_shares:
        return ratio.meets(collectives.factor(name, share))
    return collectives.ranks_for(name, *_widened(ratio)) is not None


def _widened(ratio: RatioInterval) -> tuple[float, float]:
    """Extends the interval slightly, so that it includes an exact factor at its edge."""
    return ratio.low * (1 - 1e-5), ratio.high * (1 + 1e-5)


def _single_possible(raws: Sequence[RawRow], possible: frozenset[str], hint: str | None) -> str | None:
    """Returns the only possible collective, or None. A hint selects among several possible ones."""
    if hint:
        return hint if hint in possible else None
    left = possible - {"alltoallv", "hypercube"}  # older programs, which do not print their name, had neither
    if left == {"all_gather", "alltoall"}:
        # alltoall has no check in place: its in-place column has N/A while the out-of-place one is checked.
        checks = {
            (raw.sides[0].wrong != "N/A", raw.sides[1].wrong != "N/A")
            for raw in raws
            if len(raw.sides) == 2 and raw.sides[0].wrong
        }
        left = frozenset(
            {"alltoall"} if checks == {(True, False)} else {"all_gather"} if checks == {(True, True)} else left
        )
    return next(iter(left)) if len(left) == 1 else None


def _ranks(
    collective: str | None, possible: frozenset[str], ratio: RatioInterval | None, shares: int | None, facts: TableFacts
) -> tuple[int | None, str, list[str]]:
    listed = None if facts.list_is_cut or not facts.ranks else len({(r.rank, r.group) for r in facts.ranks})
    if len(facts.leaders) > 1:
        listed = 1
    if facts.group_ranks or len({rank.group for rank in facts.ranks}) > 1:
        return listed, "", []  # each group has its own ratio
    low, high = _bounds(collective, possible, ratio, shares)
    by_figures = low if low == high else None
    if listed is not None:
        if low <= listed and (listed <= high or high == 0):
            return listed, "", []
        return (
            by_figures,
            "busbw / algbw",
            [
                f"the device list has {count_text(listed, 'rank')}, but {_ratio_text(ratio)} the figures fit "
                f"{_range(low, high)}; the list may be cut"
            ],
        )
    claimed = facts.claimed_gpus
    if by_figures is not None:
        rank_warnings = []
        if claimed is not None and claimed != by_figures:
            rank_warnings.append(
                f"{facts.claimed_by} states {claimed} GPUs, but {_ratio_text(ratio)} the figures fit "
                f"{count_text(by_figures, 'rank')}; busbw uses this number"
            )
        return by_figures, "size / count" if (shares or 0) > 1 else "busbw / algbw", rank_warnings
    if claimed is not None and low <= claimed and (claimed <= high or high == 0):
        return claimed, facts.claimed_by, []
    return None, "", []


def _bounds(
    collective: str | None, possible: frozenset[str], ratio: RatioInterval | None, shares: int | None
) -> tuple[int, int]:
    """Returns the minimum and maximum number of ranks. A maximum of 0 means unbounded."""
    if ratio is not None and ratio.meets(0.0) and ratio.high < 0.02:
        return (1, 1)
    if shares is not None and shares > 1:
        return (shares, shares)
    names = [collective] if collective else sorted(possible)
    if ratio is None or not names:
        return (1, 0)
    found = [bounds for name in names if (bounds := collectives.ranks_for(name, *_widened(ratio))) is not None]
    if not found:
        return (1, 0)
    return (min(low for low, _ in found), 0 if any(high == 0 for _, high in found) else max(high for _, high in found))


def _require_claim(
    claim: str, possible: frozenset[str], ratio: RatioInterval | None, facts: TableFacts, source: str
) -> None:
    if facts.stated_collective and facts.stated_collective != claim:
        raise UsageError(f"{source} states {facts.stated_collective}, not {claim}", remedy="leave out --collective")
    if claim not in possible:
        raise UsageError(
            f"{source} cannot be {claim}: {_ratio_text(ratio)} its columns fit {_list(possible)}",
            remedy="correct --collective or leave it out",
        )


def _ratio_text(ratio: RatioInterval | None) -> str:
    return f"with busbw / algbw = {ratio.middle:.4g}" if ratio else "by type, operator and root"


def _list(names: frozenset[str]) -> str:
    return " or ".join(sorted(names)) or "no collective"


def _range(low: int, high: int) -> str:
    if low == high:
        return count_text(low, "rank")
    return f"{low} to {high} ranks" if high else f"{low} ranks or more"
