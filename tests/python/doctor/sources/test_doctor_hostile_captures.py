"""Captures from anybody: each ends in a result or in one sentence, in time and without a traceback."""

import gzip
import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from doctor_machines import load

from busbw.cli.main import main
from busbw.doctor.captured_nodes import records_of_captures
from busbw.doctor.catalog import all_checks
from busbw.doctor.model import Machine, Unreadable
from busbw.doctor.sources.capture import archive_bytes, read_capture

LIMIT_S = 5.0
MARGIN_S = 5.0
"""Allowance for a loaded machine."""

PLAIN = {"proc/cmdline": b"quiet", "facts/limits.json": b"{}", "manifest.json": b"{}"}


def archive(members: dict[str, bytes], *more: tarfile.TarInfo) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=tarfile.PAX_FORMAT) as out:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
        for member in more:
            out.addfile(member)
    return target.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def zeros(length: int) -> bytes:
    """An archive with a file of zeros, which compression makes tiny."""
    member = tarfile.TarInfo("proc/zeros")
    member.size = length
    return gzip.compress(member.tobuf() + bytes(length), 1)


def bomb_in_a_header() -> bytes:
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, 10 << 30
    return gzip.compress(member.tobuf() + bytes(300 << 20), 1)


def many_empty_files(count: int) -> bytes:
    return gzip.compress(b"".join(tarfile.TarInfo(f"a/{index}").tobuf() for index in range(count)) + bytes(1024), 1)


MANIFEST_WITH_ESCAPES = json.dumps(
    {
        "node": "\x1b[31mn\u202e",
        "unreadable": {"facts/limits.json": "\x1b]0;title\x07 the file"},
        "targets": {"sys/class/net/\x1b[2J": "sys/\x1b[2J"},
        "folders": {"sys/class/infiniband": ["\x1b[2J"], "proc/driver/nvidia/gpus": ["../../../etc"]},
    }
).encode()

RESULTS: dict[str, Callable[[], bytes]] = {
    "plain": lambda: archive(PLAIN),
    "escapes": lambda: archive(PLAIN | {"manifest.json": MANIFEST_WITH_ESCAPES, "proc/cmdline": b"\x1b[31m\x9b2J"}),
    "a member of 100 MB": lambda: archive(PLAIN | {"proc/long": bytes(100 << 20)}),
    "absolute and parent names": lambda: archive(PLAIN | {"/etc/passwd": b"x", "../../x": b"y", "sys/../../z": b"z"}),
    "links": lambda: archive(
        PLAIN, link("sys/a", "b"), link("sys/b", "a"), link("proc/x", "/etc/passwd", tarfile.LNKTYPE)
    ),
    "devices": lambda: archive(PLAIN, link("dev/null", "", tarfile.CHRTYPE), link("dev/pipe", "", tarfile.FIFOTYPE)),
    "invalid UTF-8": lambda: archive(PLAIN | {"sys/class/net/\udcff": b"\xff", "etc/nccl.conf": b"\xff\xfe\n"}),
    "a deep name": lambda: archive(PLAIN | {"d/" * 20000 + "x": b""}),
    "a file that is a folder": lambda: archive(PLAIN | {"proc": b"", "sys": b"", "sys/class": b""}),
    "a deep fact": lambda: archive(PLAIN | {"facts/limits.json": b"[" * 100_000}),
    "a fact of another type": lambda: archive(PLAIN | {"facts/limits.json": b'{"memlock_bytes": "many"}'}),
    "a command without an end": lambda: archive(PLAIN | {"commands/'x": b"", 'later/commands/"': b""}),
    "zeros of 200 MB": lambda: zeros(200 << 20),
}
"""Archives that have a result."""

ERRORS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "text": lambda: b"no archive\n" * 100,
    "cut": lambda: archive(PLAIN)[:-40],
    "cut compression": lambda: archive(PLAIN)[:30],
    "no files": lambda: archive({}),
    "no manifest object": lambda: archive(PLAIN | {"manifest.json": b"[]"}),
    "a deep manifest": lambda: archive(PLAIN | {"manifest.json": b'{"x":' + b"[" * 1_000_000}),
    "a later format": lambda: archive(PLAIN | {"manifest.json": b'{"format": 99}'}),
    "zeros of 300 MB": lambda: zeros(300 << 20),
    "a bomb in a header": bomb_in_a_header,
    "many files": lambda: many_empty_files(21_000),
    "a corrupt number": lambda: gzip.compress(tarfile.TarInfo("x").tobuf()[:124] + b"\xff" * 388),
}
"""Archives that cannot be read."""


@pytest.mark.parametrize("kind", RESULTS)
def test_a_hostile_capture_has_a_result(kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "capture.tar.gz"
    path.write_bytes(RESULTS[kind]())
    start_s = time.monotonic()
    code = main(["doctor", "--root", str(path), "--capture", str(tmp_path / "again.tar.gz")])
    assert time.monotonic() - start_s < LIMIT_S + MARGIN_S
    text, error = capsys.readouterr()
    assert error == ""
    assert code in (0, 1, 3, 5)
    assert text.replace("\n", "").isprintable()
    assert "could not check" in text
    assert read_capture(tmp_path / "again.tar.gz")


@pytest.mark.parametrize("kind", ERRORS)
def test_what_is_no_capture_is_a_usage_error(kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "capture.tar.gz"
    path.write_bytes(ERRORS[kind]())
    start_s = time.monotonic()
    assert main(["doctor", "--root", str(path)]) == 2
    assert time.monotonic() - start_s < LIMIT_S + MARGIN_S
    error = capsys.readouterr().err
    assert error.startswith("busbw: ")
    assert error.count("\n") == 1


def test_a_value_that_is_too_long_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "capture.tar.gz"
    path.write_bytes(RESULTS["a member of 100 MB"]())
    machine = Machine(read_capture(path))
    with pytest.raises(Unreadable, match="longer than 4 MiB"):
        machine.text("proc/long")
    assert machine.text("proc/cmdline") == "quiet"


def test_a_pipe_is_no_capture(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main(["doctor", "--root", str(tmp_path / "pipe")]) == 2


def test_the_folder_of_an_unpacked_capture_is_one(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive_bytes(load("laptop").tree))) as unpacked:
        unpacked.extractall(tmp_path / "capture")
    os.mkfifo(tmp_path / "capture" / "pipe")
    (tmp_path / "capture" / "loop").symlink_to("loop")
    (tmp_path / "capture" / "passwd").symlink_to("/etc/passwd")
    capture = read_capture(tmp_path / "capture")
    assert "facts/limits.json" in capture.files
    assert "passwd" not in capture.files
    assert main(["doctor", "--root", str(tmp_path / "capture")]) in (0, 3)


def test_another_folder_is_no_capture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert main(["doctor", "--root", str(tmp_path)]) == 2
    assert "has no capture" in capsys.readouterr().err


def test_a_capture_of_one_check_does_not_show_the_other_values_as_absent(tmp_path: Path) -> None:
    original, one_check = tmp_path / "dgx.tar.gz", tmp_path / "one.tar.gz"
    original.write_bytes(archive_bytes(load("dgx-h100").tree))
    assert main(["doctor", "--root", str(original), "--check", "pcie-width", "--capture", str(one_check)]) == 0
    (record,) = records_of_captures([one_check], all_checks())
    assert not record.result.findings
    missing = {each.check: each.missing for each in record.result.could_not_check}
    assert missing["kernel-modules"].endswith("which nobody has read for this capture")
