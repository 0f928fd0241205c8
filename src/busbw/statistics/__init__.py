"""Statistics of measurements: intervals, bands of sizes, run-to-run variation, and the shape of a curve."""

NORMAL_MAD = 1.4826
"""Ratio of the standard deviation of a normal distribution to its median absolute deviation."""
