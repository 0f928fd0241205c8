"""Figures and words for people."""


def size_text(size_bytes: int) -> str:
    """A size: "8 B", "64 KiB", "1.5 GiB"; binary, as sizes are typed."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def count_text(count: int, singular: str, plural: str = "") -> str:
    """A number of things: "1 row", "24 rows"."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def plain(text: str) -> str:
    """Text of a log or a file's name without what would move a terminal's cursor or change its colours."""
    return "".join(character if character.isprintable() else "?" for character in text)
