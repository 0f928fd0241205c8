"""Compares two logs, or two variants within one: what changed, by how much, and how sure that is."""

from busbw.compare.result import (
    Basis,
    Comparison,
    Difference,
    Point,
    Side,
    SideFigures,
    SizeResult,
    Verdict,
)

__all__ = ["Basis", "Comparison", "Difference", "Point", "Side", "SideFigures", "SizeResult", "Verdict"]
