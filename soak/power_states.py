"""A disk that forgets: what may be on it after a power loss, given the calls that a process made.

What POSIX promises, and no more. The bytes and the length of a file are on the disk once the file was synced, the
names in a folder once the folder was synced. Of everything later any part may be there: each sector of a write by
itself, in any order; a length without its bytes; a name without its file's bytes, or bytes without a name. Two
things are taken for granted, as SQLite does: a sector is written whole or not at all (and its neighbours are left
alone), and a rename is one change.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .shim import Record

__all__ = ["STYLES", "Disk", "Style"]

Style = str
STYLES: tuple[Style, ...] = ("dropped", "kept", "ordered", "reordered", "torn", "mixed")
_MIXED = STYLES[:-1]
_SECTORS = (512, 4096)


@dataclass
class _File:
    """A file: its bytes as synced, and the changes since, each a position and bytes, or None and a length."""

    synced: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int | None, bytes | int]] = field(default_factory=list)

    def sync(self) -> None:
        for position, what in self.changes:
            if isinstance(what, int):
                _set_length(self.synced, what)
            else:
                assert position is not None
                _set_length(self.synced, max(len(self.synced), position))
                self.synced[position : position + len(what)] = what
        self.changes.clear()

    @property
    def live(self) -> bytes:
        """The bytes as the process sees them."""
        copy = _File(bytearray(self.synced), list(self.changes))
        copy.sync()
        return bytes(copy.synced)


_Node = _File | None  # None for a folder


class Disk:
    """What a process has done to the files below a folder.

    Parameters
    ----------
    root
        The folder, which is on the disk.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self._names: dict[str, _Node] = {"": None}  # as the process sees them
        self._synced: dict[str, _Node] = {"": None}
        self._changes: list[dict[str, _Node | str]] = []  # of names, since their folder was synced; "" for removed
        self._opened: dict[int, _Node] = {}
        self._paths: dict[int, str] = {}

    def do(self, record: Record) -> None:
        """Take over a call."""
        match record.kind:
            case "o":
                self._open(record)
            case "w":
                self._file(record).changes.append((record.offset, record.data))
            case "t":
                self._file(record).changes.append((None, record.offset))
            case "s":
                self._sync(record.handle)
            case "m":
                self._change({self._name(record.data): None})
            case "u":
                self._change({self._name(record.data): ""})
            case "n":
                old, new = (self._name(each) for each in record.data.split(b"\0"))
                self._change({old: "", new: self._names[old]})

    def live(self, name: str) -> bytes:
        """Return the bytes of a file as the process sees them; none where there is none."""
        node = self._names.get(name)
        return b"" if node is None else node.live

    def _name(self, path: bytes) -> str:
        return path.decode().removeprefix(self._root).strip("/")

    def _file(self, record: Record) -> _File:
        node = self._opened[record.handle]
        assert node is not None
        return node

    def _open(self, record: Record) -> None:
        name = self._name(record.data)
        if name not in self._names:
            is_folder = bool(record.offset & os.O_DIRECTORY)
            self._change({name: None if is_folder else _File()})
        node = self._names[name]
        if node is not None and record.offset & os.O_TRUNC:
            node.changes.append((None, 0))
        self._opened[record.handle], self._paths[record.handle] = node, name

    def _change(self, change: dict[str, _Node | str]) -> None:
        self._changes.append(change)
        _rename(self._names, change)

    def _sync(self, handle: int) -> None:
        node = self._opened[handle]
        if node is not None:
            node.sync()
            return
        folder = Path(self._paths[handle])
        synced = [each for each in self._changes if any(Path(name).parent == folder for name in each)]
        for change in synced:
            _rename(self._synced, change)
            self._changes.remove(change)

    def write(self, target: Path, rng: np.random.Generator, style: Style) -> None:
        """Write a state that the disk may be in after a power loss now to a folder."""
        names = self._state(rng, style)
        target.mkdir()
        for name in sorted(names):
            node = names[name]
            parents = [os.fspath(each) for each in Path(name).parents if os.fspath(each) != "."]
            if not name or any(names.get(each, "") is not None for each in parents):
                continue
            if node is None:
                (target / name).mkdir()
            elif name.endswith("-shm") and rng.random() < 0.5:  # written through memory, so by no call: anything
                (target / name).write_bytes(rng.bytes(len(node.live)))
            else:
                own = _MIXED[int(rng.integers(len(_MIXED)))] if style == "mixed" else style
                (target / name).write_bytes(_content(node, rng, own))

    def _state(self, rng: np.random.Generator, style: Style) -> dict[str, _Node]:
        """Return names that may be there: of the changes of one name, those before any that is there, too."""
        names, lost = dict(self._synced), set[str]()
        n_ordered = int(rng.integers(len(self._changes) + 1))
        for at, change in enumerate(self._changes):
            kept = {"dropped": False, "kept": True, "ordered": at < n_ordered}.get(style, rng.random() < 0.5)
            if kept and not lost & change.keys():
                _rename(names, change)
            else:
                lost |= change.keys()
        return names


def _rename(names: dict[str, _Node], change: Mapping[str, "_Node | str"]) -> None:
    for name, node in change.items():
        if isinstance(node, str):
            names.pop(name, None)
        else:
            names[name] = node


def _content(file: _File, rng: np.random.Generator, style: Style) -> bytes:
    """Return bytes that a file may have: each sector as after any change to it, the length as after any."""
    n = len(file.changes)
    n_ordered = int(rng.integers(n + 1))
    sector = int(rng.choice(_SECTORS))
    content, length = bytearray(file.synced), len(file.synced)
    lengths = [length]
    for at, (position, what) in enumerate(file.changes):
        share = {"dropped": 0.0, "kept": 1.0, "ordered": float(at < n_ordered), "torn": rng.random()}.get(style)
        if style == "ordered" and at == n_ordered:  # the one that the power went off in
            share = rng.random()
        if share is None:
            share = float(rng.random() < 0.5)
        if isinstance(what, int):
            length = what
            if share > rng.random():
                del content[what:]
        else:
            assert position is not None
            length = max(length, position + len(what))
            _write_sectors(content, position, what, sector, share, rng)
        lengths.append(length)
    chosen = {"dropped": 0, "kept": n, "ordered": n_ordered}.get(style, int(rng.integers(n + 1)))
    _set_length(content, lengths[chosen])
    return bytes(content)


def _write_sectors(
    content: bytearray, position: int, data: bytes, sector: int, share: float, rng: np.random.Generator
) -> None:
    """Write those sectors of some bytes that reached the disk; what lay beyond the end before may be anything."""
    edges = [position, *range(position - position % sector + sector, position + len(data), sector)]
    for begin, end in zip(edges, [*edges[1:], position + len(data)], strict=True):
        if share < 1 and rng.random() >= share:
            continue
        if len(content) < begin:
            content += rng.bytes(begin - len(content)) if rng.random() < 0.5 else bytes(begin - len(content))
        content[begin:end] = data[begin - position : end - position]


def _set_length(content: bytearray, length: int) -> None:
    if length < len(content):
        del content[length:]
    else:
        content += bytes(length - len(content))
