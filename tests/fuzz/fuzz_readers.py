"""Fuzzes the readers with atheris. Every input must raise only a BusbwError and keep the count of rows correct.

    pip install atheris
    PYTHONPATH=src python tests/fuzz/fuzz_readers.py -max_total_time=300 CORPUS tests/golden/seeds tests/golden/logs

CORPUS is a folder for the inputs that atheris finds. `make test` does not run this program.
"""

import io
import sys

import atheris

with atheris.instrument_imports(include=["busbw.readers", "busbw.logs.log"]):
    from busbw.errors import BusbwError
    from busbw.readers import READERS, UserClaims, collect
    from busbw.readers.lines.source import LogSource
    from busbw.readers.text import text_logs

import msgspec

MAX_BYTES = 20_000


def read_all(data: bytes) -> None:
    """Reads the data with every reader that recognizes it, and always with the text reader."""
    beginning = data.decode("utf-8", errors="replace")
    readers = [reader for reader in READERS.values() if reader is not text_logs and reader.recognizes(beginning)]
    for reader in (*readers, text_logs):
        try:
            log = collect("log", reader.stream(LogSource("log", io.BytesIO(data)), UserClaims()))
        except BusbwError:
            continue
        if log.candidate_rows != len(log.rows) + len(log.refused):
            raise AssertionError("rows are missing or duplicated")
        msgspec.json.decode(msgspec.json.encode(log, enc_hook=list), type=type(log))  # for `PlainRows`


def one_input(data: bytes) -> None:
    read_all(data[:MAX_BYTES])


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
