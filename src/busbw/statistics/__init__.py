"""Statistics of measurements: intervals, bands of sizes, run-to-run variation, and the shape of a curve."""
