"""Settings of a run that users do not have: when it saves, and whether it waits for the disk.

Tests change them here and nowhere else, so that a move in the package is a change of one file.
"""

from __future__ import annotations

import os

import pytest

from rxtemporal.run import checkpoint
from rxtemporal.storage.event_log import database

__all__ = ["save_at_once", "save_never", "save_often", "skip_sync"]


def save_often(patch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
    """Let a checkpoint be due so many seconds after the last one, however long that one took.

    It is written by a thread of its own, and the next one is due when it is written.
    """
    patch.setattr(checkpoint, "SECONDS", seconds)
    patch.setattr(checkpoint, "SHARE", 1e9)


def save_at_once(patch: pytest.MonkeyPatch) -> None:
    """Save after each batch or push, and return when it is saved: the next one waits for it."""
    save_often(patch)
    at_once = lambda checkpointer, captured: checkpointer._save(captured)  # noqa: E731
    patch.setattr(checkpoint.Checkpointer, "_save_aside", at_once)


def save_never(patch: pytest.MonkeyPatch) -> None:
    """Let no checkpoint be due: a run saves at its end alone."""
    patch.setattr(checkpoint, "SECONDS", 1e9)


def skip_sync(patch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk: what a process leaves is the same, unless its machine dies."""
    patch.setattr(os, "fsync", lambda handle: None)
    patch.setattr(database, "SYNCHRONOUS", "OFF")
