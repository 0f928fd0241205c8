"""Texts for sizes and counts, and removal of control characters from text of logs and devices."""


def size_text(size_bytes: int) -> str:
    """Text of a size in binary units, as users type sizes: "8 B", "64 KiB", "1.5 GiB"."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def count_text(count: int, singular: str, plural: str = "") -> str:
    """Text of a count with its noun: "1 row", "24 rows". By default the plural is the singular with an s."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def plain(text: str) -> str:
    """Replaces each character that is not printable, as it could move a terminal's cursor or change its colors."""
    return "".join(character if character.isprintable() else "?" for character in text)
