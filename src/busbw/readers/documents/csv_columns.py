"""Names of the columns of CSV, in the form that `column_name` returns."""

import re
from collections.abc import Mapping

from busbw.logs.log import Placement

_OTHER_CHARACTERS = re.compile(r"[^a-z0-9_]+")
SIZE_COLUMNS = ("size", "size_bytes", "sizebytes", "bytes")
"""Names of the size column."""
RANK_COLUMNS = ("ranks", "gpus")
PLACEMENT_COLUMNS = ("inplace", "in_place", "placement")
PLACEMENT_WORDS: dict[Placement, tuple[str, ...]] = {
    "out_of_place": ("0", "false", "out_of_place"),
    "in_place": ("1", "true", "in_place"),
}
"""Values of the placement column in lower case."""
AWS_PREFIXES: dict[Placement, str] = {"out_of_place": "oop_", "in_place": "ip_"}
"""Prefixes of the column names of each placement in AWS's format."""
FIGURE_COLUMNS = {
    "time": ("time", "time_us", "timeus", "time_ms", "timems"),
    "algbw": ("algbw", "algbw_gbps", "algbw_gb_s", "algbw_gbs"),
    "busbw": ("busbw", "busbw_gbps", "busbw_gb_s", "busbw_gbs"),
    "wrong": ("wrong", "errors", "wrong_elements"),
}
"""Column names of each figure."""
_MILLISECONDS = ("time_ms", "timems")
OTHER_COLUMNS = {
    "name": ("name", "collective", "test"),
    "elements": ("count", "count_elems"),
    "dtype": ("type", "dtype", "data_type", "datatype"),
    "redop": ("redop", "operation", "op"),
    "root": ("root",),
    "cycle": ("numcycle", "cycle"),
}
"""Column names of the other fields of `RowFields`."""


def column_name(word: str) -> str:
    """Returns a printed name in lower case, with one underscore for each sequence of other characters than a-z, 0-9, _.

    Underscores at both ends are removed: "time(us)" becomes "time_us".
    """
    return _OTHER_CHARACTERS.sub("_", word.strip("\ufeff ").lower()).strip("_")


def time_unit(header: list[str]) -> str:
    """Returns the unit that the name of the time column states: "ms", or empty."""
    prefixes = ("", *AWS_PREFIXES.values())
    columns = (find_columns(header, {"time": FIGURE_COLUMNS["time"]}, prefix).get("time") for prefix in prefixes)
    names = {header[column] for column in columns if column is not None}
    return "ms" if names and all(name.endswith(_MILLISECONDS) for name in names) else ""


def are_column_names(names: list[str]) -> bool:
    """True if all names are those of columns of rows with one placement."""
    return set(names) <= {
        *SIZE_COLUMNS,
        *(name for names_of_field in (*FIGURE_COLUMNS.values(), *OTHER_COLUMNS.values()) for name in names_of_field),
    }


def find_columns(header: list[str], names_by_field: Mapping[str, tuple[str, ...]], prefix: str = "") -> dict[str, int]:
    """Returns the position of each field in the header. A field without a column is missing.

    If the header has several names of a field, the first one in `names_by_field` counts. Of equal names, the last one
    counts.
    """
    positions = {name: position for position, name in enumerate(header)}
    known_by_field = {
        field: [positions[prefix + name] for name in names if prefix + name in positions]
        for field, names in names_by_field.items()
    }
    return {field: known[0] for field, known in known_by_field.items() if known}
