"""Feed of a service from the broker of its section ``[mqtt]``."""

from __future__ import annotations

from collections.abc import Mapping

from rxtemporal.brokers.mqtt_feed import MqttFeed
from rxtemporal.core.time_forms import check_unit
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.rejected import Rejects
from rxtemporal.query.push_source import PushSource
from rxtemporal.serve.settings import MqttSection
from rxtemporal.serve.taps import StreamTap


def make_feed(
    section: MqttSection | None, sources: Mapping[str, PushSource], taps: Mapping[str, StreamTap]
) -> MqttFeed | None:
    """Return the feed into the stream that a section names; None without a section."""
    if section is None:
        return None
    names = [section.stream] if section.stream else list(sources)
    if len(names) != 1 or names[0] not in sources:
        raise ArgumentError(
            f"[mqtt] stream is one of {', '.join(sources) or 'none'}, got {section.stream!r}"
        )
    (name,) = names
    if sources[name]._rejects is Rejects.RAISE:
        raise ArgumentError(
            f"[mqtt] and rejects=Rejects.RAISE cannot be combined: the first message of stream "
            f"{name!r} that cannot be read would end the feed. Hint: rejects=Rejects.KEEP keeps "
            "such messages apart."
        )
    if (unit := check_unit(section.unit)) is not None:
        sources[name].use_unit(unit)
    return MqttFeed(sources[name], section.make_settings(), tell=taps[name].offer_all)
