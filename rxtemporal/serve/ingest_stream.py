"""Stream of a service into which senders push."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rxtemporal.core.events import Cti
from rxtemporal.core.ticks import Time, time_ticks
from rxtemporal.ingress.encoded_rows import convert_texts, has_texts
from rxtemporal.ingress.pushed_inputs import MOST_INPUTS, OWN
from rxtemporal.ingress.rejected import Rejected
from rxtemporal.ingress.settings import WhenFull
from rxtemporal.query.push_source import PushSource
from rxtemporal.serve.dead_letters import show_bytes
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.settings import Limits
from rxtemporal.serve.tokens import Access

# so much of a body is in the stream of rejected rows
_MOST_SHOWN = 65_536


class IngestStream:
    """A source that is pushed into, its name, and the limits of a request for it."""

    __slots__ = ("_schema", "limits", "name", "source")

    def __init__(self, name: str, source: PushSource, limits: Limits) -> None:
        self.name, self.source = name, source
        entrance: Any = source.stream._node.source
        self._schema = entrance.schema if has_texts(entrance.schema) else None
        hand_off = entrance.hand_off
        if hand_off is not None and hand_off.when_full is WhenFull.BLOCK:
            # more would have to wait inside of a push
            limits = dataclasses.replace(limits, rows=min(limits.rows, hand_off.max_rows))
        self.limits = limits

    def find_source(self, access: Access, source: str | None) -> str | None:
        """Return the source of a request's rows; None is the stream's own input.

        ``RequestError`` (403): the token may not send as this one, or there are too many.
        """
        source = access.default_source if source is None else source
        if not access.may_name(source):
            if source is None:
                reason = "may send as several sources, and the request names none"
            else:
                reason = f"may not send as the source {source!r}"
            raise RequestError(
                403,
                f"the token {access.name!r} {reason}. Hint: send the header `Source: NAME` with "
                "one of the names that its section of the settings has in sources.",
            )
        if source == OWN:
            raise RequestError(
                403,
                f"no source can be called {OWN!r}: it would share its sequence numbers with rows "
                "that are sent without the header Source. Hint: give it another name.",
            )
        if source is not None and not self.source.has_room_for_input(source):
            raise RequestError(403, f"the stream has {MOST_INPUTS} sources, and takes no more")
        return source

    def convert(self, items: Any) -> None:
        """Replace texts of JSON by the values of types for which it has none."""
        if self._schema is None or not isinstance(items, dict | list):
            return
        rows = [items] if isinstance(items, dict) else [row for row in items if type(row) is dict]
        convert_texts(rows, self._schema)

    def describe_ignored(self, sent: Cti, reached: Time | None) -> str | None:
        """Return why a CTI that was pushed has not advanced the stream; None if it has."""
        entrance: Any = self.source.stream._node.source
        delay = entrance.settings.generation.delay_ticks
        if reached is not None and time_ticks(reached) >= sent.start - delay:
            return None
        return (
            "the CTI is too far ahead of the wall clock, and does not count. Hint: ahead= of the "
            "source, or ahead in [limits], says how far a clock may be ahead."
        )

    def tell_refused(self, refused: Sequence[Rejected], source: str | None) -> None:
        """Publish rows, or a body, that never came to the source in its ``rejects``."""
        if not refused or not self.source.rejects.is_heard:
            return
        shown = [
            dataclasses.replace(each, row=_show(each.row)) if type(each.row) is bytes else each
            for each in refused
        ]
        self.source.rejects.push(shown, OWN if source is None else source)


def _show(raw: bytes) -> str:
    return next(iter(show_bytes(raw[:_MOST_SHOWN]).values()))


def make_streams(sources: Mapping[str, PushSource], limits: Limits) -> dict[str, IngestStream]:
    """Return the streams of a service by name."""
    return {name: IngestStream(name, source, limits) for name, source in sources.items()}
