"""Events of an auction house for the queries of NEXMark: persons, auctions and bids.

The generator follows the one of github.com/nexmark/nexmark, which follows Apache Beam's: of 50
events one is a person, 3 are auctions and 46 are bids. Every second bid is for a hot auction, three
in four bids come from a hot bidder, three in four auctions are of a hot seller; the others are
drawn from the latest hundred auctions and thousand persons, and from ten that are yet to come. Half
of the bids come through four channels, the others through 10,000. There are 10,000 events a second.

It differs in three things. No two events have the same time, so that *the last bid* is one bid.
Texts that no query looks into, as a description, are drawn from a thousand. A part of the events
arrive late, by at most ``LATEST``; each kind of events is in the order in which they arrive.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from workloads import SECOND, SEED

import rxtemporal as rxt

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

PERSONS, AUCTIONS, BIDS = 1, 3, 46
ROUND = PERSONS + AUCTIONS + BIDS
FIRST_ID, FIRST_CATEGORY, CATEGORIES, HOT = 1_000, 10, 5, 100
ALIVE_AUCTIONS, ALIVE_PERSONS, LEAD = 100, 1_000, 10
PACE = SECOND // 10_000
# of each part of the events, so many ticks late at the most
LATE, LATEST = 0.2, 2 * SECOND
# a few seconds before a day begins, so that reports of days have two
FIRST_TIME = datetime(2015, 7, 15, 23, 59, 57, tzinfo=UTC)
CHANNELS, TEXTS, SIDE_KEYS = 10_000, 1_000, 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond",
          "Seattle", "Kent", "Cheyenne")  # fmt: skip
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah",
               "Deiter", "Walter")  # fmt: skip
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones",
              "Noris")  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class House:
    """Events of an auction house, a frame of each kind, in the order in which they arrive.

    ``time`` is the time of an event, ``arrival`` the time at which it arrives. ``side`` is a table
    that does not change.
    """

    persons: pl.DataFrame
    auctions: pl.DataFrame
    bids: pl.DataFrame
    side: pl.DataFrame

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The frames by their names."""
        return {"persons": self.persons, "auctions": self.auctions, "bids": self.bids,
                "side": self.side}  # fmt: skip


def make_house(rounds: int, *, seed: int = SEED, first_time: datetime = FIRST_TIME) -> House:
    """Return the events of so many rounds of 50, of which a part is late."""
    rng = np.random.default_rng(seed)
    first = rxt.ticks(first_time)
    # the last person at each event
    person = np.arange(rounds, dtype=np.int64)
    frames = _make_persons(rng, person), _make_auctions(rng, person), _make_bids(rng, person)
    places = np.split(np.arange(ROUND), [PERSONS, PERSONS + AUCTIONS])
    times = [first + (person[:, None] * ROUND + place).ravel() * PACE for place in places]
    kinds = [_arrive(rng, *each) for each in zip(frames, times, strict=True)]
    return House(*kinds, _make_side())


def _arrive(rng: np.random.Generator, frame: pl.DataFrame, time: Numbers) -> pl.DataFrame:
    """Return events with their times, in the order in which they arrive."""
    is_late = rng.random(len(time)) < LATE
    arrival = time + np.where(is_late, rng.integers(0, LATEST, len(time), endpoint=True), 0)
    frame = frame.with_columns(
        [_datetimes(name, values) for name, values in (("time", time), ("arrival", arrival))]
    )
    if "lasts" in frame.columns:
        frame = frame.with_columns(expires=pl.col("time") + pl.col("lasts")).drop("lasts")
    return frame.sort("arrival", maintain_order=True)


def _datetimes(name: str, ticks: Numbers) -> pl.Series:
    return pl.Series(name, ticks).cast(pl.Datetime("us", "UTC"))


def _make_persons(rng: np.random.Generator, person: Numbers) -> pl.DataFrame:
    count = len(person)
    names = [_choose(rng, each, count) for each in (FIRST_NAMES, LAST_NAMES)]
    cards = rng.integers(0, 10**16, TEXTS)
    return pl.DataFrame(
        {
            "id": FIRST_ID + person,
            "name": names[0] + " " + names[1],
            "email": _choose(rng, [f"{text}@nexmark.com" for text in _draw_texts(rng, 7)], count),
            "credit_card": _choose(rng, [f"{card:016}" for card in cards], count),
            "city": _choose(rng, CITIES, count),
            "state": _choose(rng, STATES, count),
            "extra": _choose(rng, _draw_texts(rng, 80), count),
        }
    )


def _make_auctions(rng: np.random.Generator, person: Numbers) -> pl.DataFrame:
    count = len(person) * AUCTIONS
    initial = _draw_prices(rng, count)
    # on average as long as it takes until a hundred more auctions are open
    longest = 2 * ALIVE_AUCTIONS * ROUND // AUCTIONS * PACE // 1_000
    lasts = rng.integers(1, longest, count, endpoint=True) * 1_000
    return pl.DataFrame(
        {
            "id": FIRST_ID + np.arange(count, dtype=np.int64),
            "item": _choose(rng, _draw_texts(rng, 20), count),
            "description": _choose(rng, _draw_texts(rng, 100), count),
            "initial_bid": initial,
            "reserve": initial + _draw_prices(rng, count),
            "seller": FIRST_ID + _draw_persons(rng, np.repeat(person, AUCTIONS), 0),
            "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, count),
            "extra": _choose(rng, _draw_texts(rng, 300), count),
            "lasts": pl.Series(lasts).cast(pl.Duration("us")),
        }
    )


def _make_bids(rng: np.random.Generator, person: Numbers) -> pl.DataFrame:
    last = np.repeat(person, BIDS)
    count = len(last)
    hot = rng.integers(0, 2, count) > 0
    channel = np.where(
        hot, rng.integers(0, len(HOT_CHANNELS), count), rng.integers(0, CHANNELS, count) + 4
    )
    names = [*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))]
    return pl.DataFrame(
        {
            "auction": FIRST_ID + _draw_auctions(rng, last * AUCTIONS + AUCTIONS - 1),
            "bidder": FIRST_ID + _draw_persons(rng, last, 1),
            "price": _draw_prices(rng, count),
            "channel": pl.Series(names).gather(channel),
            "url": pl.Series(_make_urls(rng)).gather(channel),
            "extra": _choose(rng, _draw_texts(rng, 68), count),
        }
    )


def _make_urls(rng: np.random.Generator) -> list[str]:
    """Return the address of each channel; nine in ten of those that are not hot name an id."""
    parts = [_draw_texts(rng, 5, len(HOT_CHANNELS) + CHANNELS) for _ in range(3)]
    urls = [f"https://www.nexmark.com/{'/'.join(each)}/item.htm?query=1"
            for each in zip(*parts, strict=True)]  # fmt: skip
    ids = [""] * len(HOT_CHANNELS) + [
        f"&channel_id={number * 429_497 % 2**32}" if rng.random() < 0.9 else ""
        for number in range(CHANNELS)
    ]
    return [url + each for url, each in zip(urls, ids, strict=True)]


def _make_side() -> pl.DataFrame:
    keys = np.arange(SIDE_KEYS, dtype=np.int64)
    return pl.DataFrame({"key": keys, "value": [f"value-{key}" for key in keys]})


# Draws ------------------------------------------------------------------------------------------


def _choose(rng: np.random.Generator, values: Any, count: int) -> pl.Series:
    return pl.Series(values).gather(rng.integers(0, len(values), count))


def _draw_texts(rng: np.random.Generator, length: int, count: int = TEXTS) -> list[str]:
    """Return texts of small letters, of about a length."""
    shortest = max(length * 4 // 5, 3)
    lengths = rng.integers(shortest, length + length // 5, count, endpoint=True)
    letters = rng.integers(ord("a"), ord("z"), int(lengths.sum()), np.uint8, endpoint=True)
    text = letters.tobytes().decode("ascii")
    ends = np.cumsum(lengths)
    return [text[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _draw_persons(rng: np.random.Generator, last: Numbers, step: int) -> Numbers:
    """Return three times in four a hot person, otherwise one of the latest thousand."""
    active = np.minimum(last + 1, ALIVE_PERSONS)
    drawn = last + 1 - active + (rng.random(len(last)) * (active + LEAD)).astype(np.int64)
    return np.where(rng.integers(0, 4, len(last)) > 0, last // HOT * HOT + step, drawn)


def _draw_auctions(rng: np.random.Generator, last: Numbers) -> Numbers:
    """Return every second time a hot auction, otherwise one of the latest hundred."""
    first = np.maximum(last - ALIVE_AUCTIONS, 0)
    drawn = first + (rng.random(len(last)) * (last - first + 1 + LEAD)).astype(np.int64)
    return np.where(rng.integers(0, 2, len(last)) > 0, last // HOT * HOT, drawn)


def _draw_prices(rng: np.random.Generator, count: int) -> Numbers:
    return np.round(np.power(10.0, rng.random(count) * 6) * 100).astype(np.int64)
