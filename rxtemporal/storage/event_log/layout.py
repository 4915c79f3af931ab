"""Names in a recording and an event log: kinds of records, and the facts of each stream."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.files import report_errors
from rxtemporal.core.ticks import ticks
from rxtemporal.errors import SpoolError
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.settings import (
    AdvanceTimeGenerationSettings,
    AdvanceTimeImportSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
    WhenAhead,
)

FORMAT = 1
HEADER = "recording.json"
ORDER = "order"
ORDER_FIELDS = pl.Schema({"stream": pl.Int32(), "records": pl.Int32()})
# each segment of a stream has its own fields
NO_FIELDS = pl.Schema()

# the error for a folder of an earlier version
EARLIER = (
    "was written by an earlier version, with events in a journal and segments. Hint: let that "
    "version run the query to its end, or begin with a new folder."
)

KIND_NAMES = ["point", "interval", "start", "end", "cti", "row", "outside", "completed", "failed"]
KINDS = pl.Enum(KIND_NAMES)
_CODES = {name: code for code, name in enumerate(KIND_NAMES)}


def kind_code(name: str) -> int:
    """Return the code of a kind of record in the column ``kind``."""
    return _CODES[name]


@dataclasses.dataclass(slots=True)
class StreamFacts:
    """Facts of one stream in the header.

    ``columns``: its rows came in frames. ``time`` is the form of its times, None before the first
    event. ``failed`` is the error of its source, as text. ``kinds`` are the kinds of its records.
    In a recording its records are in ``folder``. ``delays_ctis`` says if the delay of the settings
    also holds for the CTIs that its source sent. ``clock``: each of its devices has its own time.
    ``since`` is the number of the first record that it may have, if it was added to a log.
    ``earlier`` are the settings that held before, each with the number of the record from which on
    the next ones hold: a record is judged again by those by which it was accepted.
    ``version`` grows with each change.
    """

    name: str
    columns: bool
    settings: AdvanceTimeSettings | None = None
    time: TimeForm | None = None
    failed: str | None = None
    kinds: list[str] = dataclasses.field(default_factory=list)
    folder: str = ""
    delays_ctis: bool = False
    clock: ClockSettings | None = None
    since: int = dataclasses.field(default=0, compare=False)
    earlier: list[tuple[int, AdvanceTimeSettings | None]] = dataclasses.field(
        default_factory=list, compare=False
    )
    version: int = dataclasses.field(default=0, compare=False)

    def note_form(self, form: TimeForm | None) -> None:
        """Note the form of the times, unless it is known."""
        if self.time is None and form is not None:
            self.time = form
            self.version += 1

    def change(
        self,
        settings: AdvanceTimeSettings | None,
        clock: ClockSettings | None,
        delays_ctis: bool,
        records: int,
    ) -> None:
        """Note the settings of its time and of its clocks, if they are others.

        They hold from record number ``records`` on.
        """
        if (settings, clock, delays_ctis) == (self.settings, self.clock, self.delays_ctis):
            return
        # as plain values, in which spans are ticks
        if _settings_dict(settings) != _settings_dict(self.settings):
            self.earlier.append((records, self.settings))
        self.settings, self.clock, self.delays_ctis = settings, clock, delays_ctis
        self.version += 1

    def find_settings(self, record: int) -> AdvanceTimeSettings | None:
        """Return the settings by which a record was accepted."""
        return next((each for until, each in self.earlier if record < until), self.settings)

    def forget_before(self, record: int) -> None:
        """Forget settings that hold for none of the records from this one on."""
        self.earlier = [each for each in self.earlier if each[0] > record]

    def renumber(self, find: Callable[[int], int]) -> None:
        """Note that records have other numbers: ``find`` returns the new one of a number."""
        self.earlier = [(find(until), settings) for until, settings in self.earlier]
        self.since = find(self.since) if self.since else 0
        self.version += 1

    def note_kinds(self, kinds: Iterable[str]) -> None:
        """Note the kinds of records."""
        if new := sorted({*kinds}.difference(self.kinds)):
            self.kinds += new
            self.version += 1

    def note_failure(self, error: BaseException) -> None:
        """Note the error of the source."""
        self.failed = f"{type(error).__name__}: {error}"
        self.version += 1

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values for JSON."""
        facts = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        del facts["version"]
        if not self.since:
            del facts["since"]
        facts["earlier"] = [(until, _settings_dict(each)) for until, each in self.earlier]
        if not self.earlier:
            del facts["earlier"]
        if self.clock is None:  # as in the files of an earlier version
            del facts["clock"]
        else:
            facts["clock"] = dataclasses.asdict(self.clock)
        # a copy of ``kinds``, since the result is compared later
        return {**facts, "kinds": [*self.kinds], "settings": _settings_dict(self.settings)}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> StreamFacts:
        """Return the facts from the result of ``to_dict``."""
        clock = facts.get("clock")
        if clock is not None:
            clock = ClockSettings(**{**clock, "fields": tuple(clock["fields"])})
        earlier = [(until, _settings_of(each)) for until, each in facts.get("earlier", ())]
        settings = _settings_of(facts["settings"])
        return cls(**{**facts, "settings": settings, "earlier": earlier, "clock": clock})


def dump_header(header: dict[str, Any]) -> bytes:
    """Return the content of ``recording.json``, with its checksum."""
    return json.dumps({**header, "check": _check(header)}, indent=1).encode()


def _check(header: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(header, sort_keys=True).encode())


def load_header(path: Path) -> dict[str, Any]:
    """Return the content of ``recording.json``; ``SpoolError`` if it is missing or damaged."""
    place = path / HEADER
    if not place.exists():
        raise SpoolError(
            f"{path} is not a recording: it has no {HEADER}. Hint: run(sink, record={str(path)!r}) "
            "makes one."
        )
    with report_errors(f"cannot read {place}"):
        text = place.read_bytes()
    try:
        header: dict[str, Any] = json.loads(text)
        # an earlier version wrote none
        check = header.pop("check", None)
        if header["format"] != FORMAT:
            raise SpoolError(
                f"{place} has the format {header['format']!r}, but this version reads {FORMAT}. "
                "Hint: replay it with the version that recorded it."
            )
        if header.get("log"):
            raise SpoolError(f"{path} {EARLIER}")
        if check not in (None, _check(header)):
            raise ValueError("the checksum does not fit")
        streams = [StreamFacts.from_dict(each) for each in header["streams"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpoolError(f"{place} is damaged. Hint: restore it from a copy.") from error
    return {**header, "streams": streams}


def _settings_dict(settings: AdvanceTimeSettings | None) -> dict[str, Any] | None:
    if settings is None:
        return None
    made = settings.generation
    generation = made and {
        "events": None if isinstance(made.frequency, timedelta) else made.frequency,
        "span": ticks(made.frequency) if isinstance(made.frequency, timedelta) else None,
        "delay": made.delay_ticks,
        "advance_to_infinity_on_shutdown": made.advance_to_infinity_on_shutdown,
    }
    imports = settings.imports and settings.imports.stream_name
    return {
        "generation": generation,
        "imports": imports,
        "policy": settings.policy.value,
        "ahead": settings.ahead_ticks,
        "when_ahead": settings.when_ahead.value,
    }


def _settings_of(facts: dict[str, Any] | None) -> AdvanceTimeSettings | None:
    if facts is None:
        return None
    made, imports = facts["generation"], facts["imports"]
    generation = made and AdvanceTimeGenerationSettings(
        made["events"] or timedelta(microseconds=made["span"]),
        made["delay"],
        made["advance_to_infinity_on_shutdown"],
    )
    return AdvanceTimeSettings(
        generation,
        imports and AdvanceTimeImportSettings(imports),
        policy=AdvanceTimePolicy(facts["policy"]),
        ahead=facts.get("ahead"),
        when_ahead=WhenAhead(facts.get("when_ahead", WhenAhead.KEEP)),
    )
