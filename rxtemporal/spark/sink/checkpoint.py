"""Spark's checkpoint folder, read without Spark: the segments of each micro-batch."""

from __future__ import annotations

import json
from pathlib import Path

from rxtemporal.core.files import report_errors
from rxtemporal.errors import SpoolError


def last_segment(checkpoint: Path, batch: int) -> int:
    """Return the last segment of a micro-batch; Spark writes it before the batch runs.

    ``SpoolError`` for a batch that Spark does not know (it keeps the last hundred).
    """
    path = checkpoint / "offsets" / str(batch)
    with report_errors(f"Spark's checkpoint has no micro-batch {batch}"):
        text = path.read_bytes()
    try:
        # the version, the batch's metadata, and the offset of the one source
        return int(json.loads(text.splitlines()[2])["segment"])
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise SpoolError(
            f"{path} is damaged, or Spark has changed its layout. Hint: delete {checkpoint}; "
            "unpublished rows are read from the spool again."
        ) from error


def is_committed(checkpoint: Path, batch: int) -> bool:
    """Return True if Spark has committed this micro-batch."""
    return (checkpoint / "commits" / str(batch)).exists()


def committed_segment(checkpoint: Path) -> int:
    """Return the last segment of the last committed micro-batch, 0 if there is none."""
    commits = checkpoint / "commits"
    if not commits.is_dir():
        return 0
    done = [int(path.name) for path in commits.iterdir() if path.name.isdigit()]
    return last_segment(checkpoint, max(done)) if done else 0
