"""The errors that mihash raises, so that a caller can catch exactly what they can handle.

::

    MIHashError
    ├── InvalidInput (ValueError)        an argument breaks a rule; nothing was changed
    │   └── DuplicateKey                 a key is stored already; nothing was stored
    ├── NotReady (RuntimeError)          called too early, or on an object that cannot do it
    │   └── ReadOnly                     a change, in a process that only reads
    ├── SnapshotMismatch (ValueError)    codes of two different hash mappings were mixed
    ├── UnknownName (KeyError)           no learner, data set or option of that name
    ├── Renamed (AttributeError)         a name of an earlier release; the message gives the new one
    ├── ServiceError                     a service failed, or could not be reached
    └── StoreError                       something stored cannot be read or written
        ├── CorruptStore                 bytes are missing or changed
        ├── DeadlineExceeded             a read passed its deadline and was stopped
        ├── PartialFailure               shards of a cluster cannot be reached
        ├── StoreLocked                  it is open for writing already
        ├── Superseded                   another coordinator has taken over an index on Ray
        ├── TooLarge                     a value does not fit into a row of the store; nothing was changed
        └── UnsupportedVersion           written by a newer mihash
"""


class MIHashError(Exception):
    """The root of every error that mihash raises on purpose."""


class InvalidInput(MIHashError, ValueError):
    """An argument breaks a rule; the object is as it was before the call."""


class DuplicateKey(InvalidInput):
    """A key is stored already; nothing of the call was stored."""


class NotReady(MIHashError, RuntimeError):
    """The object cannot do this yet, or cannot do it at all."""


class ReadOnly(NotReady):
    """A process that only reads the index called a method that changes it."""


class SnapshotMismatch(MIHashError, ValueError):
    """Codes of two different hash mappings were mixed."""


class UnknownName(MIHashError, KeyError):
    """No such name; the message lists the known ones."""

    def __str__(self) -> str:
        """Return the message as it was written (a KeyError would quote it)."""
        return str(self.args[0]) if self.args else ""


class UnknownField(UserWarning):
    """A filter names a field that no item has, and nothing was found; its spelling may be wrong."""


class Renamed(MIHashError, AttributeError):
    """A name of an earlier release is gone; the message names the one to use.

    Parameters
    ----------
    old, new
        The two names, as they are written in a program.

    Examples
    --------
    >>> print(Renamed("system.update()", "system.rehash()"))
    system.update() is now system.rehash().
    """

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"{old} is now {new}.")


class ServiceError(MIHashError):
    """A service failed to do what was requested, or could not be reached.

    Parameters
    ----------
    message
        What is wrong.
    code
        The code of its answer (docs/service.md), ``"unreachable"`` where there was none.
    status
        The HTTP status of its answer, 0 if there was none.
    """

    def __init__(self, message: str, code: str = "unreachable", status: int = 0) -> None:
        super().__init__(message)
        self.code, self.status = code, status


class StoreError(MIHashError):
    """Something stored cannot be read or written."""


class CorruptStore(StoreError):
    """Stored bytes are missing, or their checksum is wrong."""


class DeadlineExceeded(StoreError):
    """The read passed its deadline and was stopped; nothing was changed."""


class PartialFailure(StoreError):
    """Shards of a cluster cannot be reached, so the whole answer cannot be given.

    Parameters
    ----------
    message
        What is wrong.
    missing
        The numbers of the shards.
    """

    def __init__(self, message: str, missing: tuple[int, ...] = ()) -> None:
        super().__init__(message, missing)
        self.missing = missing

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class StoreLocked(StoreError):
    """The store is open for writing already, in this process or another."""


class TooLarge(StoreError):
    """A value does not fit into a row of the store; nothing of the call was stored."""


class Superseded(StoreError):
    """Another coordinator has taken over this index on Ray; this process no longer acknowledges changes."""


class UnsupportedVersion(StoreError):
    """The store was written by a newer mihash."""
