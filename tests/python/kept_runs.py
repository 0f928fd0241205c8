"""Makes run folders for tests of the run store and of the history, from the golden record."""

import json
from pathlib import Path

from conftest import GOLDEN_RECORD

from busbw.store import RECORDS

SIZES = [1024, 65536, 1 << 26]


def add_run(
    store: Path,
    day: int,
    *,
    slower: float = 1,
    host: str = "vm",
    library: str = "1",
    build: str = "b1",
    machine: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    **settings: object,
) -> None:
    """Adds a run to a store.

    Args:
        store: Folder of the store.
        day: Day of the run, from 0; months have 28 days.
        slower: Factor of all times.
        host: Host of all ranks.
        library: Version of the measured library.
        build: Build id of busbw.
        machine: Additional facts of the machine.
        environment: Additional environment variables.
        settings: Changes of the header's settings.
    """
    golden_records = [json.loads(line) for line in GOLDEN_RECORD.read_text().splitlines()]
    header = golden_records[0]
    row = next(record for record in golden_records if record["kind"] == "row")
    header |= {"start_time": f"2026-{1 + day // 28:02}-{1 + day % 28:02}T12:00:00+00:00", "backend_version": library}
    header["busbw_build"] = build
    header["settings"] |= {"one_sided": False, **settings}  # the golden record sets all fields
    header["machine"] |= machine or {}
    header["environment"] |= environment or {}
    for rank in header["ranks"]:
        rank["host"] = host
    rows = [
        {
            **row,
            "size_bytes": size,
            "requested_bytes": size,
            "time_us": (10 + size / 1e5) * slower * (1 + day % 3 / 500),
        }
        for size in SIZES
    ]
    folder = store / f"run-{len(list(store.glob('run-*'))):04}"
    folder.mkdir(parents=True)
    (folder / RECORDS).write_text("".join(json.dumps(line) + "\n" for line in (header, *rows)))
