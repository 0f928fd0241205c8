"""The fact of device nodes, on this machine."""

import os

import pytest

from busbw.doctor.facts import device_nodes


def test_nodes_are_usable_or_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_nodes, "_PATTERNS", ("null", "zer*", "shm", "missing*"))
    assert device_nodes.read_device_nodes() == device_nodes.DeviceNodes(usable=("null", "zero"))
    monkeypatch.setattr(os, "access", lambda path, mode: path.name == "null")
    assert device_nodes.read_device_nodes() == device_nodes.DeviceNodes(usable=("null",), denied=("zero",))
