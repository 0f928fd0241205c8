"""The fact of device nodes, on this machine."""

import os

import pytest

from busbw.doctor.facts import process


def test_nodes_are_usable_or_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_NODE_PATTERNS", ("null", "zer*", "shm", "missing*"))
    assert process.read_device_nodes() == process.DeviceNodes(usable=("null", "zero"))
    monkeypatch.setattr(os, "access", lambda path, mode: path.name == "null")
    assert process.read_device_nodes() == process.DeviceNodes(usable=("null",), denied=("zero",))
