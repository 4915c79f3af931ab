"""Live event-flow page of a service: the newest rows of each operator, for people who look."""

from __future__ import annotations

import asyncio
import threading

from starlette.types import Receive, Scope, Send

from rxtemporal.serve.event_streams import SseChannel, send_head
from rxtemporal.serve.responses import RequestError, dumps, send_page
from rxtemporal.serve.results import FeedEvent
from rxtemporal.serve.routes import Need, Route
from rxtemporal.serve.service import Service
from rxtemporal.view.debug.data import write_json
from rxtemporal.view.debug.live import LiveFlow, Place, describe_shell
from rxtemporal.view.debug.page import build_page

# seconds from one event to the next
PERIOD = 1.0


class Lookers:
    """Those who look at a service: the rows of its run are kept as long as there is one.

    Threads: any.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._live: LiveFlow | None = None
        self.count = 0

    def enter(self) -> Looker:
        """Return one more looker. ``RequestError``: there are as many as may be."""
        with self._lock:
            if self.count >= self._service.settings.results.lookers:
                raise RequestError(
                    503,
                    f"there are {self.count} who look at this page",
                    retry_after=self._service.settings.limits.retry_after,
                )
            self.count += 1
        return Looker(self, self._service.name)

    def leave(self) -> None:
        """Take one looker away; after the last one nothing is kept."""
        with self._lock:
            self.count -= 1
            if not self.count and self._live is not None:
                self._live.close()
                self._live = None

    def find(self) -> LiveFlow | None:
        """Return what is kept of the present run; None if there is no run or no looker."""
        with self._lock:
            process = self._service.process
            if process is None or not self.count:
                return None
            if self._live is None or self._live.process is not process:
                if self._live is not None:
                    self._live.close()
                self._live = LiveFlow(process)
                self._live.open()
            return self._live


class Looker:
    """Reader of a live flow: first the plan with the rows that are kept, then what is new."""

    def __init__(self, lookers: Lookers, title: str) -> None:
        self._lookers, self._title = lookers, title
        self._live: LiveFlow | None = None
        self._place: Place | None = None
        self._known = 0

    def read(self) -> FeedEvent | None:
        """Return the next event; None if there is no run."""
        live = self._lookers.find()
        if live is None:
            return None
        known = live.known
        if self._place is None or live is not self._live or known != self._known:
            self._live, self._known = live, known
            flow, self._place = live.read_all(self._title)
            return FeedEvent("flow", None, dumps(flow))
        return FeedEvent("part", None, dumps(live.read(self._place)))


class LivePage:
    """Routes of the live page.

    ``GET /debug`` is the page, without data. ``GET /debug/events`` sends server-sent events:
    ``flow`` with the plan and the rows that are kept, then each second a ``part`` with counters and
    new rows.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lookers = Lookers(service)

    async def show_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page."""
        page = await asyncio.to_thread(_make_page, self._service.name)
        # beside the policy in the page, which has no word for this
        await send_page(scope, send, page, "frame-ancestors 'none'")

    async def send_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the flow and its parts until the looker has gone or the service stops."""
        self._service.refuse_if_leaving()
        if scope["method"] == "HEAD":
            await send_head(send, 200)
            return
        looker = self._lookers.enter()
        channel = SseChannel(scope, receive, send)
        self._service.add_drain_callback(channel.leave)
        try:
            async with channel:
                await self._follow(looker, channel)
        except (TimeoutError, OSError):
            pass  # the looker takes nothing, or has gone
        finally:
            self._service.remove_drain_callback(channel.leave)
            self._lookers.leave()

    async def _follow(self, looker: Looker, channel: SseChannel) -> None:
        while not channel.left.done():
            # beside the event loop, since receipts do not wait for it
            event = await asyncio.to_thread(looker.read)
            if event is None:
                await channel.keep_alive()
            else:
                await channel.write(event)
            await asyncio.wait([channel.left], timeout=PERIOD)


def _make_page(name: str) -> bytes:
    return build_page(write_json(describe_shell(name)), title=name, live=True).encode()


def list_routes(service: Service) -> list[Route]:
    """Return the routes of the live page; an empty list if it is disabled."""
    if not service.settings.results.lookers:
        return []
    page = LivePage(service)
    return [
        # the page has no data, and a browser cannot send a token with a link
        Route("/debug", "GET", page.show_page, Need.NOBODY, summary="The event-flow page."),
        Route("/debug/events", "GET", page.send_events, summary="The news of the event-flow page."),
    ]
