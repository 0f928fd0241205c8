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
from msgspec.structs import replace

from busbw.doctor.model.check import Unreadable
from busbw.doctor.model.machine import Absent, Fact
from busbw.doctor.sources.commands import run_command

NCCL, CUDA, NVML, VERBS = "libnccl.so.2", "libcuda.so.1", "libnvidia-ml.so.1", "libibverbs.so.1"
NET_PLUGINS, TUNER_PLUGINS = "libnccl-net*.so", "libnccl-tuner*.so"
_NAMES = re.compile(
    r"libnccl\.so\.2|libnccl-.*\.so|libcuda\.so\.1|libnvidia-ml\.so\.1|libibverbs\.so\.1|librdmacm\.so\.1|"
    r"libfabric\.so\.1|libsharp_coll\.so(?:\.\d+)?"
)
_CACHE_LINE = re.compile(r"^\s+(\S+) \([^)]*64[^)]*\) => (/.+)$", re.MULTILINE)
"""Line of `ldconfig -p` for a 64-bit library."""
_LIMIT_S = 2.0
"""Time after which content is no longer read: a library on a network file system may be slow."""
_PART_BYTES, _OVERLAP_BYTES = 4 << 20, 128
_VERSION = re.compile(rb"(?:NCCL version |Initializing aws-ofi-nccl )(\d+\.\d+\.\d+)")
_VARIABLE = re.compile(rb"(?<![A-Z_])(?:OFI_)?NCCL_[A-Z][A-Z0-9_]{1,60}(?![a-z])")
_HOME = re.compile(r"^/home/[^/]+(?=/)")


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
    """None if neither content nor file name states it."""
    sha256: str | None = None
    """First 12 digits. None if the content was not read, or not in time."""


class Libraries(Fact, kw_only=True, frozen=True):
    """Libraries in the order in which the dynamic linker and the wheels of PyTorch find them."""

    libraries: tuple[Library, ...] = ()
    wheels: dict[str, str] = field(default_factory=dict)
    """Versions of NCCL wheels by package name, from the packages' metadata."""
    variables: tuple[str, ...] | None = None
    """Variables of NCCL and its plugins that occur in their files. None if they were not read to the end."""

    def find(self, pattern: str) -> tuple[Library, ...]:
        """Returns the libraries whose name matches. The first is the one that a program loads."""
        return tuple(each for each in self.libraries if fnmatchcase(each.name, pattern))


def read_libraries() -> Libraries:
    """Returns the libraries for programs that this process would start.

    Raises:
        Unreadable: The cache of the dynamic linker cannot be listed, so libraries would seem absent.
    """
    end = time.monotonic() + _LIMIT_S
    libraries: dict[str, Library] = {}
    variables: set[str] = set()
    is_complete = True
    for path, origin in [*_named_files(), *_wheel_files(), *_cached_files()]:
        try:
            target, size_bytes = path.resolve(strict=True), path.stat().st_size
            if f"{path.name} {target}" in libraries or not target.is_file():
                continue
            version = re.search(r"\.so\.(\d+\.[\d.]+)$", target.name)
            library = Library(
                name=path.name,
                path=_HOME.sub("~", str(target).replace(f"{Path.home()}/", "~/")),
                origin=origin,
                size_bytes=size_bytes,
                version=version[1] if version else None,
            )
            if path.name.startswith("libnccl"):
                library, found, was_read = _with_content(library, target, end)
                variables |= found
                is_complete = is_complete and was_read
        except (OSError, RuntimeError):  # Such as a folder of another user, or a loop of links.
            continue
        libraries[f"{path.name} {target}"] = library
    has_nccl = any(each.name == NCCL for each in libraries.values())
    return Libraries(
        libraries=tuple(libraries.values()),
        wheels=dict(sorted(_wheels())),
        variables=tuple(sorted(variables)) if has_nccl and is_complete else None,
    )


def _with_content(library: Library, path: Path, end: float) -> tuple[Library, set[str], bool]:
    """Returns the library with version and hash, its variables, and True if it was read to the end."""
    digest, version, variables, before = hashlib.sha256(), None, set[str](), b""
    is_complete = False
    with path.open("rb") as file:
        while not is_complete and time.monotonic() < end:
            part = file.read(_PART_BYTES)
            digest.update(part)
            text = before + part
            if b"NCCL_" in text:
                variables |= {match[0].decode() for match in _VARIABLE.finditer(text)}
            version = version or _VERSION.search(text)
            before = part[-_OVERLAP_BYTES:]
            is_complete = len(part) < _PART_BYTES
    library = replace(
        library,
        version=version[1].decode() if version else library.version,
        sha256=digest.hexdigest()[:12] if is_complete else None,
    )
    return library, variables, is_complete


def _named_files() -> Iterator[tuple[Path, str]]:
    for word in re.split(r"[:\s]+", os.environ.get("LD_PRELOAD", "")):
        if _NAMES.fullmatch(Path(word).name):
            yield Path(word), "LD_PRELOAD"
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        with suppress(OSError):
            paths = sorted(path for path in Path(folder).iterdir() if _NAMES.fullmatch(path.name))
            yield from ((path, "LD_LIBRARY_PATH") for path in paths)


def _wheel_files() -> Iterator[tuple[Path, str]]:
    for folder in sys.path:
        path = Path(folder, "nvidia/nccl/lib", NCCL)
        if path.exists():
            yield path, "wheel"


def _cached_files() -> Iterator[tuple[Path, str]]:
    try:
        listing = run_command(["ldconfig", "-p"]).decode(errors="replace")
    except Absent as error:
        raise Unreadable("ldconfig, which lists the libraries") from error
    for name, path in _CACHE_LINE.findall(listing):
        if _NAMES.fullmatch(name):
            yield Path(path), "ldconfig"


def _wheels() -> Iterator[tuple[str, str]]:
    for folder in sys.path:
        for path in Path(folder).glob("nvidia_nccl_*.dist-info"):
            name, _, version = path.stem.partition("-")
            yield name, version
