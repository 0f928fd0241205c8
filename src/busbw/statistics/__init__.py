"""How sure a figure is: intervals, bands of sizes, the scatter of starts, and the shape of a curve."""
