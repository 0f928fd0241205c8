"""Libraries of communication that the dynamic linker would find, read from their files without loading them."""

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, field

from busbw.doctor.model.check import Unreadable
from busbw.doctor.model.machine import Absent, Fact
from busbw.doctor.sources.commands import run_command

NCCL, CUDA, NVML, VERBS, NET_PLUGINS = (
    "libnccl.so.2", "libcuda.so.1", "libnvidia-ml.so.1", "libibverbs.so.1", "libnccl-net*.so",
)  # fmt: skip
_NAMES = re.compile(
    r"libnccl\.so\.2|libnccl-.*\.so|lib(?:cuda|nvidia-ml|ibverbs|rdmacm|fabric)\.so\.1|libsharp_coll\.so(?:\.\d+)?"
)
_CACHE_LINE = re.compile(r"^\s+(\S+) \([^)]*64[^)]*\) => (/.+)$", re.MULTILINE)
"""Line of `ldconfig -p` for a 64-bit library."""
_LIMIT_S = 2.0
"""Time after which content is no longer read: a library on a network file system may be slow."""
_PART_BYTES, _OVERLAP_BYTES = 4 << 20, 128
_VERSION = re.compile(rb"(?:NCCL version |Initializing aws-ofi-nccl )(\d+\.\d+\.\d+)")
_VARIABLE = re.compile(rb"(?<![A-Z_])(?:OFI_)?NCCL_[A-Z][A-Z0-9_]{1,60}(?![a-z])")


class Library(Struct, kw_only=True, frozen=True):
    """File of a shared library."""

    name: str
    """Name for the dynamic linker: libnccl.so.2."""
    path: str
    """Path without symbolic links; home folders are "~"."""
    origin: str
    """LD_PRELOAD, LD_LIBRARY_PATH, wheel or ldconfig."""
    size_bytes: int
    version: str | None = None
    """From the content of NCCL and its plugins, else from the file name. None if neither states it."""
    sha256: str | None = None
    """First 12 digits, of NCCL and its plugins. None if the file was not read to the end."""


class Libraries(Fact, kw_only=True, frozen=True):
    """Libraries in the order in which the dynamic linker and the wheels of PyTorch find them."""

    libraries: tuple[Library, ...] = ()
    wheels: dict[str, str] = field(default_factory=dict)
    """Versions of the wheels that share the folder of the first one, as pip lists them, by package name."""
    variables: tuple[str, ...] | None = None
    """Names of variables in the content of NCCL and its plugins. None if these were not read to the end."""

    def find(self, pattern: str) -> tuple[Library, ...]:
        """Returns the libraries with a matching name. The first is the one that a program loads."""
        return tuple(each for each in self.libraries if fnmatchcase(each.name, pattern))


def read_libraries() -> Libraries:
    """Returns the libraries for programs that this process would start.

    Raises:
        Unreadable: The cache of the dynamic linker cannot be listed, so libraries would seem absent.
    """
    end = time.monotonic() + _LIMIT_S
    libraries: dict[tuple[str, Path], Library] = {}
    variables: set[str] = set()
    for path, origin in [*_named_files(), *_wheel_files(), *_cached_files()]:
        with suppress(OSError, RuntimeError):  # Such as a folder of another user, or a loop of links.
            target = path.resolve(strict=True)
            if target.is_file() and (path.name, target) not in libraries:
                libraries[path.name, target] = _library(path.name, target, origin, end, variables)
    found = [each for each in libraries.values() if each.name.startswith("libnccl")]
    is_complete = any(each.name == NCCL for each in found) and all(each.sha256 for each in found)
    return Libraries(
        libraries=tuple(libraries.values()),
        wheels=_wheels(),
        variables=tuple(sorted(variables)) if is_complete else None,
    )


def _library(name: str, path: Path, origin: str, end: float, variables: set[str]) -> Library:
    """Returns the library, and adds the variables in its content."""
    version = re.search(r"\.so\.(\d+\.[\d.]+)$", path.name)
    stated, sha256 = _read_content(path, end, variables) if name.startswith("libnccl") else (None, None)
    return Library(
        name=name,
        path=re.sub(r"^/home/[^/]+(?=/)", "~", str(path).replace(f"{Path.home()}/", "~/")),
        origin=origin,
        size_bytes=path.stat().st_size,
        version=stated or (version[1] if version else None),
        sha256=sha256,
    )


def _read_content(path: Path, end: float, variables: set[str]) -> tuple[str | None, str | None]:
    """Returns version and hash, and adds the variables."""
    digest, version, before = hashlib.sha256(), None, b""
    with path.open("rb") as file:
        while time.monotonic() < end:
            part = file.read(_PART_BYTES)
            digest.update(part)
            text = before + part
            if b"NCCL_" in text:
                variables |= {match[0].decode() for match in _VARIABLE.finditer(text)}
            version = version or _VERSION.search(text)
            before = part[-_OVERLAP_BYTES:]
            if len(part) < _PART_BYTES:
                return version[1].decode() if version else None, digest.hexdigest()[:12]
    return version[1].decode() if version else None, None


def _named_files() -> Iterator[tuple[Path, str]]:
    for word in re.split(r"[:\s]+", os.environ.get("LD_PRELOAD", "")):
        if _NAMES.fullmatch(Path(word).name):
            yield Path(word), "LD_PRELOAD"
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        with suppress(OSError):
            paths = sorted(path for path in Path(folder).iterdir() if _NAMES.fullmatch(path.name))
            yield from ((path, "LD_LIBRARY_PATH") for path in paths)


def _wheel_files() -> Iterator[tuple[Path, str]]:
    return ((Path(folder, "nvidia/nccl/lib", NCCL), "wheel") for folder in sys.path)


def _cached_files() -> Iterator[tuple[Path, str]]:
    try:
        listing = run_command(["ldconfig", "-p"]).decode(errors="replace")
    except Absent as error:
        raise Unreadable("ldconfig, which lists the libraries") from error
    return ((Path(path), "ldconfig") for name, path in _CACHE_LINE.findall(listing) if _NAMES.fullmatch(name))


def _wheels() -> dict[str, str]:
    folder = next((path.parents[3] for path, _ in _wheel_files() if path.exists()), None)
    names = [path.stem.partition("-") for path in folder.glob("nvidia_nccl_*.dist-info")] if folder else []
    return {name: version for name, _, version in sorted(names)}
