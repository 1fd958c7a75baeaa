"""Changes that only a server has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.reconcile.plan.base import Change


class Place(Change, frozen=True):
    """Choose a host and take room on it; the answer is the server's host, or a failed build."""


class BindPort(Change, frozen=True):
    port: str
    host: str


class UnbindPort(Change, frozen=True):
    port: str


class ReleasePort(Change, frozen=True):
    """An automatic port is deleted, a user's port is given back as it was."""

    port: str
    interface: str


class SetAttachment(Change, frozen=True):
    """The attachment's status, and the host that has it ("" for none)."""

    attachment: str
    status: str
    host: str = ""
    info: Mapping[str, Any] = {}


class EndAttachment(Change, frozen=True):
    """The attachment and its block device go; with ``delete`` the volume too."""

    attachment: str
    volume: str
    delete: bool


class PassAttachment(Change, frozen=True):
    """The volume itself waits for the end of the attachment, and then is deleted or available."""

    attachment: str
    volume: str
    delete: bool


class FreeAllocation(Change, frozen=True):
    pass


class TakeImage(Change, frozen=True):
    """Fill the image from a disk."""

    image: str
    disk: str
    host: str


class DropImage(Change, frozen=True):
    image: str


class Fault(Change, frozen=True):
    message: str
    code: int = 500


class DetachDevice(Change, frozen=True):
    """A port (its id) or a volume (its attachment's) goes, although nobody asked for that."""

    part: str


class SwapVolume(Change, frozen=True):
    """All that is in one volume is in the other too, which takes its place: the first one is detached."""

    old: str
    new: str


class Arrived(Change, frozen=True):
    """What the user asked for last has come true."""


class NotArrived(Change, frozen=True):
    """What the user asked for last will not come true; the server itself is well. ``action``: only these end."""

    message: str
    action: str | None = None


class ChooseTarget(Change, frozen=True):
    """Choose the host that the server moves to and take room on it; the answer is the move's, or its end."""


class MoveOn(Change, frozen=True):
    """The move enters a phase; the server's host and flavor are those of that phase."""

    phase: str
    error: str | None = None


class EndMove(Change, frozen=True):
    """Nothing of the move is left; what it had taken at placement is freed."""

    status: str


class EndSnapshot(Change, frozen=True):
    """The image of the server is whole, or will not be."""

    image: str
    error: str | None = None


class WriteVolume(Change, frozen=True):
    """A volume is to be written anew from an image."""

    volume: str
    image: str
