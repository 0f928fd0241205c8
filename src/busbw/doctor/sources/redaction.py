"""Redacts a capture: removes secrets, and replaces names, addresses, UUIDs and serial numbers.

Redaction applies to the keys, the values and the manifest. Secrets are tokens, passwords, and variables that
`may_be_secret` selects.

A replacement is the same in the whole capture, and a link-local address stays one, so that checks decide as before.
Names of interfaces and RDMA devices stay, except that the MAC address in a name such as enx0c42a1b2c3d4 is replaced.
Evidence stays readable.
"""

import getpass
import re
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from itertools import chain
from typing import Any

import msgspec

from busbw.doctor.model.tree import COMMANDS, FACTS, LATER, command_key, command_words
from busbw.doctor.sources.capture import Capture, Manifest
from busbw.engine import NODE_NAME_VARIABLE
from busbw.support.secret_variables import may_be_secret

_ENVIRONMENT = f"{FACTS}environment.json"
_PSEUDONYM = re.compile(r"(?:host|domain|user|name|serial|secret)-\d+")
"""Pseudonym that an earlier rule has inserted. Later rules leave it unchanged."""
_NAMES = {
    # Tokens of GitHub, GitLab, Hugging Face, NVIDIA, OpenAI, Slack and AWS, and JSON Web Tokens such as SLURM_JWT.
    r"\b(?:gh[opsru]_|github_pat_|glpat-|hf_|nvapi-|sk-|xox[abp]-)[\w-]{8,}|\bA[KS]IA[A-Z0-9]{16}\b"
    r"|\beyJ[\w-]{8,}(?:\.[\w-]+)+": "secret",
    # password=..., "api_key": "..."
    r"(?i)(?:token|passw(?:or)?d|secret|api_?key)[\"']?[ \t]*[:=][ \t]*[\"']?([^\s\"',;&]+)": "secret",
    r"\bip-\d{1,3}(?:-\d{1,3}){3}(?:\.[\w.-]+)?\b": "host",  # ip-10-0-0-1.ec2.internal, in clouds
    # user@host.domain, but not a unit of systemd such as getty@tty1.service
    r"(?<![\w.+-])[\w.+-]+@(?![\w.:-]*\.(?:service|socket|target|timer|slice)\b)[\w-]+(?:\.[\w-]+)+": "user",
    r"(?<=\[)[\w.-]+(?=@)": "user",  # [user@host
    # /home/user, /scratch/user, /lustre/users/user
    r"(?:^|(?<=[/\s:=\"'(,]))(?:(?:home|[uU]sers|scratch|fsx|lustre|gpfs)/)+([^/\s:;,'\"<>()%]+)": "user",
    # NodeName=..., Reason=..., as scontrol prints them
    r"(?m)^[ \t]*(?:Comment|Reason|Extra)=(?!\(null\))(.+)$": "name",
    r"\b(?:NodeName|NodeHostName|NodeAddr|Owner|UserId|Account|Partitions)=([^\s(]+)": "name",
    # Serial Number: ..., vendor SN: ..., but not a path such as /serial: ...
    r"(?i)(?:(?<!/)serial(?:[ _]?n(?:umber|um|o))?|\b(?:vendor )?sn)[\"']?"
    r"[ \t]*[:=>][ \t]*[\"']?([\w.-]{3,})": "serial",
}
"""Kinds of names, by their patterns. The first group of a pattern is the name. Without a group, the whole match is the
name."""
# Patterns of identifiers. The lookarounds exclude matches within longer words.
_UUID = r"(?<![0-9a-fA-F])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9a-fA-F])"
# Identifier of a container, or any other SHA-256 digest.
_DIGEST = r"(?<![0-9a-fA-F])[0-9a-f]{64}(?![0-9a-fA-F])"
# 6 bytes of Ethernet, 8 of a GUID or 20 of IP over InfiniBand; or 6 bytes in an interface's name, or of a network boot.
_HARDWARE = (
    r"(?<![\w:])[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}(?:(?::[0-9a-fA-F]{2}){2}|(?::[0-9a-fA-F]{2}){14})?(?![\w:])"
    r"|(?<=\benx)[0-9a-f]{12}\b|(?<=\bBOOTIF=01-)[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5}\b"
)
_GUID = r"(?<![\w:])[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3}(?![\w:])|(?i:(?<=guid: 0x)|(?<=guid:\t0x))[0-9a-fA-F]{16}\b"
_IPV6 = r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4})(?![\w:])"
_IPV4 = r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]|-\w)"
_EXPLODED_LENGTH = 39
"""Length of an IPv6 address with all digits."""
# First pseudonyms for addresses: in 10.0.0.0/8 and fd00::/64, or link-local.
_NETWORK, _LINK_LOCAL = IPv4Address("10.0.0.0"), IPv4Address("169.254.0.0")
_NETWORK_6, _LINK_LOCAL_6 = IPv6Address("fd00::"), IPv6Address("fe80::")
_VERSION_WORDS = ("version", "firmware", "driver", "fw", "pkg", "release")
"""Words before a version that looks like an IPv4 address."""
_CONTEXT_LENGTH = 24
"""Number of characters before the version in which such a word counts."""
_VARIABLE_WITH_NAME = re.compile(
    r"USER|ACCOUNT|HOST|NODELIST|NODENAME|NODE_ALIASES|LAUNCH_NODE|JOB_NAME|COMMENT|PARTITION|RESERVATION|CLUSTER"
    r"|TOPOLOGY_ADDR$|SUBMIT_|QOS|NAMESPACE|JOB_GROUP|LICENSES|WCKEY|STEPMGR|node_regex|precondition_transports"
)
"""Part of the name of a variable that holds names of users, hosts or jobs. All words of its value are replaced."""
_WORD_WITH_LETTER = re.compile(r"[^,.:;/|\[\]\s]*[A-Za-z][^,.:;/|\[\]\s]*")
"""Word of such a value. A word without a letter stays, such as the range in node[01-64]."""
_COMMON_WORDS = re.compile(
    r"admin|amd|bus|class|cuda|data|dev|docker|etc|false|gpu|guest|home|host|intel|kernel|lib|localhost|mellanox|module|mpi"
    r"|nccl|net|nobody|node|none|null|nvidia|opt|proc|root|run|slurm|sys|tmp|true|ubuntu|user|usr|var|work"
)
"""Words that stay, also if a host or user has this name. They identify nothing, and occur in other texts of the capture
with another meaning."""


def redact(capture: Capture, names: Iterable[tuple[str, str]] = ()) -> Capture:
    """Returns the capture without what identifies a machine or a person.

    `names` has kind ("host", "domain" or "user") and text of names that the capture does not state.
    """
    redaction = _Redaction([*names, *_stated_names(capture)])
    redact_key, manifest = redaction.redact_key, capture.manifest
    files = {redact_key(key): redaction.redact_content(key, content) for key, content in sorted(capture.files.items())}
    # Each entry is redacted as a path, because the patterns of names depend on the folder.
    folders = {
        redact_key(folder): tuple(redact_key(f"{folder}/{name}").rpartition("/")[2] for name in entries)
        for folder, entries in sorted(manifest.folders.items())
    }
    return Capture(
        files,
        Manifest(
            folders=folders,
            targets={redact_key(link): redact_key(target) for link, target in sorted(manifest.targets.items())},
            absent=tuple(map(redact_key, manifest.absent)),
            unreadable={
                redact_key(key): redaction.redact_text(reason) for key, reason in sorted(manifest.unreadable.items())
            },
        ),
    )


def names_of_this_machine() -> list[tuple[str, str]]:
    """Returns the host name, its domain, and the user's name."""
    names = _host_names(socket.gethostname())
    with suppress(KeyError, OSError):  # a user without a name
        names.append(("user", getpass.getuser()))
    return names


def _stated_names(capture: Capture) -> list[tuple[str, str]]:
    variables = _variables(capture.files.get(_ENVIRONMENT, b""))
    hosts = [variables.get(name, "") for name in ("SLURMD_NODENAME", "SLURM_SUBMIT_HOST", NODE_NAME_VARIABLE)]
    hosts.append(capture.files.get("proc/sys/kernel/hostname", b"").decode(errors="replace").strip())
    return [*chain.from_iterable(map(_host_names, hosts)), ("user", variables.get("SLURM_JOB_USER", ""))]


def _host_names(text: str) -> list[tuple[str, str]]:
    """Returns a host name and its domain separately, so that the redacted text still has a host and a domain."""
    host, _, domain = text.partition(".")
    return [("host", host), *([("domain", domain)] if "." in domain else [])]


def _variables(content: bytes) -> dict[str, str]:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return msgspec.json.decode(content, type=dict[str, dict[str, str]])["variables"]
    return {}


class _Pseudonyms:
    """Numbers the names of each kind in the order of appearance, from 1."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[object, int]] = {}

    def number(self, kind: str, name: object) -> int:
        """Returns the number of a name."""
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(name, len(numbers) + 1)

    def name(self, kind: str, name: str) -> str:
        """Returns the pseudonym of a name: "host-1"."""
        return f"{kind}-{self.number(kind, name)}"

    def ipv4(self, address: IPv4Address) -> IPv4Address:
        """Returns another address, which is link-local if this one is. Netmasks and addresses of fixed meaning stay."""
        if address.packed[0] in (0, 127, 255) or address.is_multicast:
            return address
        return (_LINK_LOCAL if address.is_link_local else _NETWORK) + self.number("IPv4 address", address)

    def ipv6(self, address: IPv6Address) -> IPv6Address:
        """Returns another address of the same class."""
        if address.ipv4_mapped is not None:
            return IPv6Address((0xFFFF << 32) | int(self.ipv4(address.ipv4_mapped)))
        if int(address) >> 32 == 0 or address.is_multicast:  # such as ::1, and ::0604 as a class of PCI devices
            return address
        return (_LINK_LOCAL_6 if address.is_link_local else _NETWORK_6) + self.number("IPv6 address", address)

    def hardware(self, value: bytes) -> bytes:
        """Returns the pseudonym of an address of Ethernet (6 bytes), a GUID (8), or IP over InfiniBand (20)."""
        is_multicast = len(value) == 6 and value[0] & 1 == 1
        if is_multicast or set(value) in ({0}, {0xFF}):
            return value
        locally_administered = b"\x02"
        return locally_administered + self.number("hardware address", value).to_bytes(len(value) - 1, "big")


class _Redaction:
    """Replaces what identifies a machine or a person in texts."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        self._pseudonyms = _Pseudonyms()
        kinds = {
            name: kind
            for kind, name in names
            if len(name) > 1 and not name.isdigit() and not _COMMON_WORDS.fullmatch(name)
        }
        longest_first = "|".join(map(re.escape, sorted(kinds, key=len, reverse=True)))
        matches_nothing = r"(?!)"
        known_name = rf"(?<![A-Za-z0-9])(?:{longest_first})(?![A-Za-z0-9])" if kinds else matches_nothing
        # The rules apply in this order. Longer identifiers come first: a GUID also has the form of an IPv6 address.
        rules: dict[str, Callable[[re.Match[str]], str]] = {
            known_name: lambda match: self._pseudonyms.name(kinds[match[0]], match[0]),
            **{pattern: partial(self._name, kind) for pattern, kind in _NAMES.items()},
            _UUID: lambda match: f"00000000-0000-4000-8000-{self._pseudonyms.number('UUID', match[0].lower()):012x}",
            _DIGEST: lambda match: f"{self._pseudonyms.number('digest', match[0]):064x}",
            _HARDWARE: self._hardware,
            _GUID: self._hardware,
            _IPV6: self._ipv6,
            _IPV4: self._ipv4,
        }
        self._rules = [(re.compile(pattern), replacement) for pattern, replacement in rules.items()]

    def redact_text(self, text: str) -> str:
        for pattern, replacement in self._rules:
            text = pattern.sub(replacement, text)
        return text

    def redact_key(self, key: str) -> str:
        """Redacts a path, or each word of a command."""
        prefix = LATER if key.startswith(LATER) else ""  # begins the key of a second reading of the same value
        path = key.removeprefix(prefix)
        with suppress(ValueError):  # the command has an unclosed quote, which only a handwritten capture can have
            if path.startswith(COMMANDS):
                return prefix + command_key(tuple(map(self.redact_text, command_words(path))))
        return prefix + self.redact_text(path)

    def redact_content(self, key: str, content: bytes) -> bytes:
        """Redacts the value of a key. `key`: the key before its redaction."""
        if key == _ENVIRONMENT:
            variables = {
                name: self._value(name, value)
                for name, value in _variables(content).items()
                if not may_be_secret(name, value)
            }
            return msgspec.json.encode({"variables": variables})
        name = key.rpartition("/")[2].lower()
        if key.startswith(FACTS):
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return msgspec.json.encode(self._redact_json(name, msgspec.json.decode(content)))
        text = content.decode(errors="surrogateescape")
        if "serial" in name and text.strip():
            text = self._pseudonyms.name("serial", text.strip())
        return self._redact_named(name, text).encode(errors="surrogateescape")

    def _redact_json(self, name: str, value: Any) -> Any:
        """Redacts each text in a value of JSON, because the patterns do not know the escapes of JSON."""
        if isinstance(value, dict):
            return {field: self._redact_json(field, item) for field, item in value.items()}
        if isinstance(value, list):
            return [self._redact_json(name, item) for item in value]
        return self._redact_named(name, value) if isinstance(value, str) else value

    def _redact_named(self, name: str, text: str) -> str:
        # After this prefix, `_ipv4` takes four numbers for a version, not for an address.
        before = "version: " if any(word in name for word in _VERSION_WORDS) else ""
        return self.redact_text(before + text).removeprefix(before)

    def _value(self, variable: str, value: str) -> str:
        """Returns the value of a variable. The ranges in a list of nodes stay: node[01-64] becomes name-1[01-64]."""
        text = self.redact_text(value)
        if _VARIABLE_WITH_NAME.search(variable):
            text = _WORD_WITH_LETTER.sub(lambda match: self._name("name", match), text)
        return text

    def _name(self, kind: str, match: re.Match[str]) -> str:
        """Replaces the name in a match: the only group, at the end of the match. Without a group, the whole match."""
        has_group = match.re.groups > 0
        name = match[1] if has_group else match[0]
        if _COMMON_WORDS.fullmatch(name) or _PSEUDONYM.fullmatch(name):
            return match[0]
        return match[0].removesuffix(name) + self._pseudonyms.name(kind, name)

    def _hardware(self, match: re.Match[str]) -> str:
        digits = self._pseudonyms.hardware(bytes.fromhex(re.sub("[:-]", "", match[0]))).hex()
        group_length = match[0].find(":")  # 2 digits, or 4 of a GUID; -1: no colons
        return ":".join(re.findall("." * group_length, digits)) if group_length > 0 else digits

    def _ipv6(self, match: re.Match[str]) -> str:
        # A text with short parts, such as 0:1:2:3:4:5:6:7, is probably no address, so it stays.
        if all(len(part) <= 2 for part in match[0].split(":")):
            return match[0]
        with suppress(ValueError):
            address = IPv6Address(match[0])
            shown = self._pseudonyms.ipv6(address)
            if shown != address:
                return shown.exploded if len(match[0]) == _EXPLODED_LENGTH else str(shown)
        return match[0]

    def _ipv4(self, match: re.Match[str]) -> str:
        # Text before the match, in the same line.
        before = match.string[max(0, match.start() - _CONTEXT_LENGTH) : match.start()].rpartition("\n")[2].lower()
        with suppress(ValueError):
            if not any(word in before for word in _VERSION_WORDS):
                return str(self._pseudonyms.ipv4(IPv4Address(match[0])))
        return match[0]
