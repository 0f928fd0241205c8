"""The hosts that other tests use: do they reach each other, and are cuts, delays and losses what they say?"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed import plain_environment

from . import namespaces
from .namespaces import Host, network, skip_reason

pytestmark = pytest.mark.skipif(bool(reason := skip_reason()), reason=reason)

ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], 4000))
print(socket.gethostname(), flush=True)
while True:
    peer, _ = server.accept()
    with peer:
        while part := peer.recv(65536):
            peer.sendall(part)
"""
ASK = """
import socket, sys, time
size, limit_s = int(sys.argv[2]), float(sys.argv[3])
try:
    with socket.create_connection((sys.argv[1], 4000), limit_s) as peer:
        begun = time.monotonic()
        sent, left = b"x" * size, size
        peer.sendall(sent)
        while left:
            left -= len(peer.recv(left))
        print(time.monotonic() - begun)
except OSError as error:
    print(type(error).__name__)
"""


def echo(host: Host, folder: Path) -> None:
    """Starts it, and sees that it knows the host by its name."""
    process = host.start([sys.executable, "-c", ECHO, "0.0.0.0"], folder=folder, environment=plain_environment())
    assert process.stdout is not None
    assert process.stdout.readline() == f"{host.name}\n"


def ask(host: Host, address: str, folder: Path, size_bytes: int = 8, limit_s: float = 30) -> str:
    """How long an echo of so many bytes takes, in seconds, or the name of the error."""
    words = [sys.executable, "-c", ASK, address, str(size_bytes), str(limit_s)]
    return host.start(words, folder=folder, environment=plain_environment()).communicate()[0].strip()


def test_hosts_reach_each_other_on_every_switch_and_nobody_else(tmp_path: Path) -> None:
    with network(3, switches=2) as net:
        echo(net.hosts[0], tmp_path)
        for host in net.hosts[1:]:
            for address in net.hosts[0].addresses:
                assert float(ask(host, address, tmp_path)) >= 0
        routes = subprocess.run(
            ["ip", "-n", net.hosts[0].namespace, "route"], capture_output=True, text=True, check=True
        ).stdout
        assert [line.split()[0] for line in routes.splitlines()] == ["10.78.0.0/24", "10.78.1.0/24"]


def test_a_cut_is_silent_and_heals(tmp_path: Path) -> None:
    with network(2, switches=2) as net:
        echo(net.hosts[0], tmp_path)
        net.cut(net.hosts[1], switch=0)
        assert ask(net.hosts[1], net.hosts[0].addresses[0], tmp_path, limit_s=0.5) == "TimeoutError"
        assert float(ask(net.hosts[1], net.hosts[0].addresses[1], tmp_path)) >= 0
        net.heal(net.hosts[1], switch=0)
        assert float(ask(net.hosts[1], net.hosts[0].addresses[0], tmp_path)) >= 0


def test_a_delay_is_in_every_answer(tmp_path: Path) -> None:
    with network(2, delay_ms=20) as net:
        echo(net.hosts[0], tmp_path)
        # Two links on the way there, and two on the way back.
        assert float(ask(net.hosts[1], net.hosts[0].addresses[0], tmp_path)) >= 0.080


def test_losses_are_sent_again(tmp_path: Path) -> None:
    with network(2, delay_ms=0.1, loss=0.02) as net:
        echo(net.hosts[0], tmp_path)
        assert float(ask(net.hosts[1], net.hosts[0].addresses[0], tmp_path, size_bytes=1_000_000, limit_s=60)) > 0
        command = ["ip", "netns", "exec", net.hosts[1].namespace, "cat", "/proc/net/snmp"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        names, values = (line.split() for line in lines if line.startswith("Tcp:"))
        assert int(dict(zip(names, values, strict=True))["RetransSegs"]) > 0


def test_nothing_is_left(tmp_path: Path) -> None:
    with network(2, delay_ms=1) as net:
        echo(net.hosts[0], tmp_path)
        name, process = net.name, net.hosts[0].started[0]
        assert name in subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    assert process.poll() is not None
    left = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    left += subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert name not in left
    assert name[2:] not in left


def test_a_fault_of_these_tests_is_not_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_MTU", "nonsense")
    assert skip_reason() == ""
    with pytest.raises(AssertionError, match="nonsense"), network(1):
        pass


def test_a_machine_without_namespaces_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    unshare.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert skip_reason().endswith("Operation not permitted")
