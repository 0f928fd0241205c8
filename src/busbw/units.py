"""Size, time and bandwidth; texts for sizes and counts; removal of control characters from text of logs and devices."""


def bandwidth_gbps(size_bytes: float, time_us: float, factor: float = 1.0) -> float:
    """Returns size / time times a factor: algbw, or busbw with the bus factor. 1 byte per us is 1e-3 GB/s."""
    return size_bytes * factor / time_us / 1e3


def transfer_time_us(size_bytes: float, bandwidth: float, factor: float = 1.0) -> float:
    """Returns the time for which `bandwidth_gbps` is this bandwidth in GB/s."""
    return size_bytes * factor / bandwidth / 1e3


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
