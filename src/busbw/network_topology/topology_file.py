"""Reads a topology file. The content decides the format."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
import yaml

from busbw.errors import UsageError
from busbw.network_topology.infiniband import parse_ibnetdiscover
from busbw.network_topology.kubernetes import NodeDocument
from busbw.network_topology.leaves import Attachment
from busbw.network_topology.slurm import SlurmTopology, attachments_of_default_topology, parse_topology_conf
from busbw.support.files import read_user_file

_MAX_BYTES = 1 << 28
"""Maximum length of a file. 1,024 nodes as JSON of Kubernetes have 50 MB."""
_MAX_YAML_BYTES = 1 << 22
"""Maximum length of YAML, because its parser is slow."""
_MAX_ATTACHMENTS = 1 << 18
"""Maximum number of nodes, or of NICs in a file with the leaf switch of each NIC."""
_REMEDY = "give a file of Slurm, ibnetdiscover or `kubectl get nodes -o json`, or lines NODE LEAF or NODE NIC LEAF"


def read_attachments(path: Path) -> list[Attachment]:
    """Returns the leaf switches in a file of Slurm, ibnetdiscover, Kubernetes or topograph, or of lines NODE LEAF.

    Raises:
        UsageError: The file cannot be read, has another format, or states no leaf switch.
    """
    try:
        return _collect(_parse(read_user_file(path, max_bytes=_MAX_BYTES)))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", remedy="name a readable file") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # msgspec's errors are ValueErrors
        raise UsageError(f"{path} is no network topology: {' '.join(str(error).split())}", remedy=_REMEDY) from error


def _collect(attachments: Iterable[Attachment]) -> list[Attachment]:
    first_attachments = list(islice(attachments, _MAX_ATTACHMENTS + 1))
    if not first_attachments:
        raise ValueError("it names no leaf switch")
    if len(first_attachments) > _MAX_ATTACHMENTS:
        raise ValueError(f"it names more than {_MAX_ATTACHMENTS:,} nodes")
    return first_attachments


def _parse(content: bytes) -> Iterable[Attachment]:
    text = content.decode("utf-8-sig")
    for pattern, parse in _PARSERS.items():
        if re.search(pattern, text, re.MULTILINE | re.IGNORECASE):
            return parse(text)
    return _parse_lines(text)


def _parse_json(text: str) -> Iterator[Attachment]:
    """Parses nodes of Kubernetes, or topograph's graph."""
    return msgspec.json.decode(text, type=NodeDocument).attachments()


def _parse_yaml(text: str) -> Iterator[Attachment]:
    """Parses nodes of Kubernetes, topograph's graph, or topology.yaml of Slurm."""
    if len(text) > _MAX_YAML_BYTES:
        raise ValueError("YAML above 4 MiB takes long to read, so use JSON")
    # A few lines of aliases can expand to any amount of data, so aliases are refused.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=loader)):
        raise ValueError("it has a YAML alias")
    document = msgspec.yaml.decode(text, type=NodeDocument | list[SlurmTopology])
    if isinstance(document, NodeDocument):
        return document.attachments()
    return attachments_of_default_topology(document)


def _parse_lines(text: str) -> Iterator[Attachment]:
    """Parses lines NODE LEAF or NODE NIC LEAF."""
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        if len(fields) not in (2, 3):
            raise ValueError(f"line {number} has {len(fields)} fields")
        node, leaf = fields[0], fields[-1]
        nic = fields[1] if len(fields) == 3 else None
        yield Attachment(node, nic, leaf)


_PARSERS = {
    r"\A\s*\{": _parse_json,
    r'^(Switch|Ca|Rt)\s+\d+\s+"': parse_ibnetdiscover,
    r"^[ \t]*(SwitchName|BlockName)=": parse_topology_conf,
    r"^(-\s+topology|apiVersion|items)\s*:": _parse_yaml,
}
"""Parser by pattern: the first pattern that occurs in the text decides. Other text has a line per node or NIC."""
