"""Hosts for tests: network namespaces with addresses and names of their own, joined by switches that can be cut.

Each switch is a bridge in a namespace of the network's own, so nothing appears on the machine's own network. A link
with delay or loss goes through a relay in this process, because many kernels lack the queueing discipline that would do
it. Names are unique to the network, and all of it goes with its namespaces.
"""

import fcntl
import os
import random
import secrets
import select
import shutil
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_TUNSETIFF = 0x400454CA
_IFF_TAP_NO_PI = 0x1002
_MTU = 9000
_TRIED = "ip link add s0 type bridge && ip link add v0 type veth peer name w0"
_BY_NAME = 'echo "$1" >/proc/sys/kernel/hostname && shift && exec "$@"'
"""Shell command that runs a program with its own host name."""


def skip_reason() -> str:
    """Why there can be no such hosts on this machine; empty where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "network namespaces need ip (iproute2) and unshare (util-linux)"
    # Not `network` itself: what is wrong with that is an error of these tests and no want of the machine.
    words = ["unshare", "--net", "--mount", "--uts", "sh", "-c", _TRIED]
    tried = subprocess.run(words, capture_output=True, text=True)
    return f"this machine gives no network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


@dataclass
class Host:
    """One host: a network namespace, a host name, and an address on each switch."""

    name: str
    namespace: str
    addresses: list[str]
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def start(
        self, command: Sequence[str | Path], *, folder: Path, environment: dict[str, str], output: Path | None = None
    ) -> "subprocess.Popen[str]":
        """Starts a program on this host: the process that is returned, in a group of its own."""
        words = ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-c", _BY_NAME, "sh", self.name]
        with ExitStack() as stack:
            process = subprocess.Popen(
                [*words, *map(str, command)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(output.open("w")) if output else subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def stop_all(self) -> None:
        for process in self.started:
            process.kill()  # a process that was stopped dies of it too
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()


class Network:
    """Hosts and what joins them; made by `network`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hosts: list[Host] = []
        self.middle = f"{name}-m"
        """The namespace in which the switches are."""
        self.relays: list[_Relay] = []

    def cut(self, host: Host, switch: int = 0) -> None:
        """Nothing passes any more; the host sees a link that is up and silent."""
        _ip("-n", self.middle, "link", "set", self.port(self.hosts.index(host), switch), "nomaster")

    def heal(self, host: Host, switch: int = 0) -> None:
        """Undoes `cut`."""
        _ip("-n", self.middle, "link", "set", self.port(self.hosts.index(host), switch), "master", f"s{switch}")

    @staticmethod
    def port(host: int, switch: int) -> str:
        """The interface of a switch that leads to a host."""
        return f"p{switch}h{host}"

    def close(self) -> None:
        """Removes all of it; what still runs on the hosts is killed."""
        for host in self.hosts:
            host.stop_all()
        for relay in self.relays:
            relay.stop()
        for namespace in [*(host.namespace for host in self.hosts), self.middle]:
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


@contextmanager
def network(
    hosts: int,
    *,
    switches: int = 1,
    delay_ms: float = 0.0,
    loss: float = 0.0,
    lossy: Mapping[tuple[int, int], float] | None = None,
) -> Iterator[Network]:
    """So many hosts on so many switches.

    Host 1 of switch 2 has the address 10.78.2.11 and there the interface eth2. There is nothing else than loopback.

    Args:
        hosts: How many.
        switches: How many networks join all of them.
        delay_ms: What a frame takes longer between any host and any switch.
        loss: Which share of the frames is lost there.
        lossy: Another share for some links, by the numbers of host and switch.
    """
    made = Network(f"bb{os.getpid()}-{secrets.token_hex(4)}")
    try:
        _ip("netns", "add", made.middle)
        for switch in range(switches):
            _ip(
                "-n", made.middle, "link", "add", f"s{switch}", "mtu", str(_MTU), "type", "bridge", "forward_delay", "0"
            )
            _ip("-n", made.middle, "link", "set", f"s{switch}", "up")
        for index in range(hosts):
            host = Host(
                f"host{index}", f"{made.name}-{index}", [f"10.78.{one}.{10 + index}" for one in range(switches)]
            )
            made.hosts.append(host)
            _ip("netns", "add", host.namespace)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
            for switch in range(switches):
                _join(made, index, switch, delay_ms, (lossy or {}).get((index, switch), loss))
        yield made
    finally:
        made.close()


def _join(made: Network, index: int, switch: int, delay_ms: float, loss: float) -> None:
    """Gives a host an interface that leads to a switch."""
    host, port, inner = made.hosts[index], made.port(index, switch), f"eth{switch}"
    if delay_ms or loss:
        # Made here under names that nobody else has, and moved; they go when the relay closes them.
        ends = [f"{made.name[2:]}{side}{switch}{index}"[-15:] for side in "ab"]
        relay = _Relay(ends, delay_ms / 1e3, loss, random.Random(f"{switch}{index}"))
        made.relays.append(relay)
        _ip("link", "set", ends[0], "netns", host.namespace, "name", inner)
        _ip("link", "set", ends[1], "netns", made.middle, "name", port)
        relay.start()
    else:
        peer = ("peer", "name", port, "netns", made.middle)
        _ip("link", "add", inner, "netns", host.namespace, "type", "veth", *peer)
    _ip("-n", host.namespace, "address", "add", f"{host.addresses[switch]}/24", "dev", inner)
    for namespace, name in ((host.namespace, inner), (made.middle, port)):
        _ip("-n", namespace, "link", "set", name, "mtu", str(_MTU))
    _ip("-n", made.middle, "link", "set", port, "master", f"s{switch}")
    for namespace, name in ((host.namespace, inner), (made.middle, port)):
        _ip("-n", namespace, "link", "set", name, "up")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"


class _Relay:
    """Carries frames between two interfaces, each a while later, and loses some."""

    def __init__(self, names: list[str], delay_s: float, loss: float, dice: random.Random) -> None:
        self._ends = [_tap(name) for name in names]
        self._delay_s = delay_s
        self._loss = loss
        self._dice = dice
        self._ended, self._end = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        os.close(self._end)
        if self._thread.is_alive():
            self._thread.join()
        for descriptor in [*self._ends, self._ended]:
            os.close(descriptor)

    def _run(self) -> None:
        waiting: deque[tuple[float, int, bytes]] = deque()
        while True:
            until = waiting[0][0] - time.monotonic() if waiting else None
            readable, _, _ = select.select(
                [*self._ends, self._ended], [], [], max(until, 0.0) if until is not None else None
            )
            if self._ended in readable:
                return
            now = time.monotonic()
            for end in readable:
                for frame in _frames(end):
                    if self._dice.random() >= self._loss:
                        waiting.append((now + self._delay_s, self._ends[1 - self._ends.index(end)], frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _, end, frame = waiting.popleft()
                with suppress(OSError):  # the interface may be down
                    os.write(end, frame)


def _frames(descriptor: int) -> Iterator[bytes]:
    """Those that have come, and at most so many that the others get their turn."""
    with suppress(OSError):  # no more has come, or the interface is down
        for _ in range(64):
            yield os.read(descriptor, _MTU + 64)


def _tap(name: str) -> int:
    """Creates an interface and returns a descriptor to read and write its frames."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TAP_NO_PI))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
