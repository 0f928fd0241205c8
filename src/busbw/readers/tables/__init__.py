"""Interprets printed rows of any layout by the arithmetic of bandwidth.

`assembly` collects the lines of a table, and `layouts` splits its rows into columns. `inference` determines time unit,
factor (busbw / algbw), collective and ranks with `arithmetic` and `identity`, and refuses rows that contradict them.
`rows` then makes the rows that all other packages use (`logs.Row`).
"""
