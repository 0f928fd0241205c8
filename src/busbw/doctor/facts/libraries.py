"""Libraries of communication that the dynamic linker would find, read from their files without loading them."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from busbw.doctor.model import Absent, Unreadable
from busbw.doctor.model.machine import Fact

NCCL, CUDA, VERBS, NET_PLUGINS = "libnccl.so.2", "libcuda.so.1", "libibverbs.so.1", "libnccl-net*.so"
_NAMES = re.compile(r"libnccl\.so\.2|libnccl-.*\.so|lib(?:cuda|ibverbs)\.so\.1")
_CACHE_LINE = re.compile(r"^\s+(\S+) \([^)]*64[^)]*\) => (/.+)$", re.MULTILINE)
"""Line of `ldconfig -p` for a 64-bit library, such as "libnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2"."""
_CONTENT_BYTES = 16 << 20
"""Length of the part of a library that is read: the host's code and texts. 400 MB of compiled kernels follow them."""
# Patterns that begin with plain text are a hundred times faster than other patterns.
_NCCL_VERSION = re.compile(rb"NCCL version (\d+\.\d+\.\d+)")
_VARIABLE = re.compile(rb"NCCL_[A-Z][A-Z0-9_]{1,60}")


class Library(Struct, kw_only=True, frozen=True):
    """File of a shared library."""

    name: str
    """Name for the dynamic linker: libnccl.so.2."""
    path: str
    """Path without symbolic links; the home folder is "~", because its name may be that of a person."""
    origin: str
    """LD_PRELOAD, LD_LIBRARY_PATH, wheel or ldconfig."""
    version: str | None = None
    """Version in the content of NCCL, else in the file name. None if neither states a version."""


class Libraries(Fact, kw_only=True, frozen=True):
    """Libraries in the order in which the dynamic linker and the wheels of PyTorch find them."""

    libraries: tuple[Library, ...] = ()
    variables: tuple[str, ...] | None = None
    """Names of variables in the content of NCCL and its plugins. None if NCCL is not installed."""

    def find(self, pattern: str) -> tuple[Library, ...]:
        """Returns the libraries with a matching name. The first is the one that a program loads."""
        return tuple(library for library in self.libraries if fnmatchcase(library.name, pattern))


def read_libraries(run: Callable[[list[str]], bytes]) -> Libraries:
    """Returns the libraries for programs that this process would start.

    Args:
        run: Returns the output of a command.

    Raises:
        Unreadable: The cache of the dynamic linker cannot be listed, so libraries would seem absent.
    """
    libraries: dict[tuple[str, Path], Library] = {}
    variables: set[str] = set()
    wheels = [(Path(folder, "nvidia/nccl/lib", NCCL), "wheel") for folder in sys.path]
    for path, origin in [*_named_files(), *wheels, *_cached_files(run)]:
        with suppress(OSError, RuntimeError):  # Such as a folder of another user, or a loop of links.
            target = path.resolve(strict=True)
            if target.is_file() and (path.name, target) not in libraries:
                content = _beginning(path.name, target)
                version = _version(path.name, target, content)
                path_text = str(target).replace(f"{os.environ.get('HOME') or '~'}/", "~/")
                libraries[path.name, target] = Library(name=path.name, path=path_text, origin=origin, version=version)
                variables.update(_variables_in(content))
    return Libraries(
        libraries=tuple(libraries.values()),
        variables=tuple(sorted(variables)) if any(name.startswith("NCCL_") for name in variables) else None,
    )


def _beginning(name: str, path: Path) -> bytes:
    """Returns the first part of the content of NCCL or a plugin. Empty for other libraries, which need not be read."""
    if not name.startswith("libnccl"):
        return b""
    with path.open("rb") as file:
        return file.read(_CONTENT_BYTES)


def _version(name: str, path: Path, content: bytes) -> str | None:
    in_content = _NCCL_VERSION.search(content) if name == NCCL else None
    if in_content:
        return in_content[1].decode()
    in_file_name = re.search(r"\.so\.(\d+\.[\d.]+)$", path.name)
    return in_file_name[1] if in_file_name else None


def _variables_in(content: bytes) -> Iterator[str]:
    """Yields the names of variables.

    `_VARIABLE` begins with the plain text NCCL_ to be fast, so the prefix OFI_ is looked up before each match.
    """
    for match in _VARIABLE.finditer(content):
        prefix = "OFI_" if content.endswith(b"OFI_", 0, match.start()) else ""
        yield prefix + match[0].decode()


def _named_files() -> Iterator[tuple[Path, str]]:
    """Yields path and origin of the libraries that LD_PRELOAD and LD_LIBRARY_PATH name."""
    for word in re.split(r"[:\s]+", os.environ.get("LD_PRELOAD", "")):
        if _NAMES.fullmatch(Path(word).name):
            yield Path(word), "LD_PRELOAD"
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        with suppress(OSError):
            paths = sorted(path for path in Path(folder).iterdir() if _NAMES.fullmatch(path.name))
            yield from ((path, "LD_LIBRARY_PATH") for path in paths)


def _cached_files(run: Callable[[list[str]], bytes]) -> Iterator[tuple[Path, str]]:
    """Returns path and origin of the libraries in the cache of the dynamic linker."""
    try:
        listing = run(["ldconfig", "-p"]).decode(errors="replace")
    except Absent as error:
        raise Unreadable("ldconfig, which lists the libraries") from error
    return ((Path(path), "ldconfig") for name, path in _CACHE_LINE.findall(listing) if _NAMES.fullmatch(name))
