"""Verification of a run's file: its structure is sound, its checksums fit, nothing is missing."""

from __future__ import annotations

from rxtemporal.errors import CheckpointError, SpoolError
from rxtemporal.storage.event_log.database import damage_error
from rxtemporal.storage.event_log.record_count import RecordCount
from rxtemporal.storage.event_log.stored_log import ORDER_PART, PARTS, TABLES, StoredLog


def verify(log: StoredLog, count: RecordCount) -> int:
    """Verify a file, of which the count beside it tells the least that it has had.

    Returns the number of the next record. ``SpoolError``, or ``CheckpointError`` where the state is
    damaged, names the place of the damage. Reads the whole file once.
    """
    header = log.header()
    count.check_id(log.file, header["id"])
    with log.connect() as database:
        (found,) = database.row("PRAGMA integrity_check(1)")
        if found != "ok":
            raise damage_error(log.file, " ".join(str(found).split()))
        tables = database.rows("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
        if {sql for (sql,) in tables} != {*TABLES}:
            raise damage_error(log.file, "its tables have changed")
        for (name,) in database.rows("SELECT name FROM facts"):
            _verify_fact(log, name)
    records = _verify_parts(log)
    if records < header["records"]:
        raise _gap(log, records, header["records"])
    count.check_records(log.file, records)
    count.check_saves(log.file, header.get("saves", 0))
    return records


def _verify_fact(log: StoredLog, name: str) -> None:
    try:
        log.fact(name)
    except SpoolError as error:
        if name.startswith("checkpoint"):
            raise CheckpointError(str(error)) from error
        raise


def _verify_parts(log: StoredLog) -> int:
    """Return the number of the next record, if the parts are contiguous and whole."""
    covered = reached = start = log.find_checkpoint().records
    missing, at = 0, 0
    with log.connect() as database:
        while (row := database.row(f"{PARTS} WHERE id > ? LIMIT 1", at)) is not None:
            at, stream, first, records, *_ = row
            log.content(row)
            if first < covered:
                continue  # the checkpoint has it, and it was not deleted yet
            if stream == ORDER_PART:
                if missing or first != reached:
                    raise _gap(log, start, first)
                missing, start, reached = records, first, first + records
            elif first != start:
                raise _gap(log, start, reached)
            else:
                missing -= records
    if missing:
        raise _gap(log, start, reached)
    return reached


def _gap(log: StoredLog, first: int, end: int) -> SpoolError:
    return damage_error(log.file, f"of the records {first:,} to {end:,} some are missing")
