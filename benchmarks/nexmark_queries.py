"""The queries of NEXMark, q0 to q22, as functions of streams.

Parameters name the streams that a query reads: ``persons``, ``auctions`` and ``bids``, which are
points at the times of the events; ``arrivals``, the bids at the times of their arrival; ``side``, a
table whose rows never end. ``nexmark_sql.py`` has the same queries in SQL; the page of the docs,
which ``page.py`` makes, has both, with the first lines of the docstrings.

A query in SQL gives one table. Here a result says from when to when it holds, and leaves when
nothing can change it any more. Where the table of SQL changes with each event (q4, q6, q9, q15 to
q19), a comment says which results are compared with its last state.
"""

from __future__ import annotations

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

Stream = rxt.Streamable

price = pl.col("price")
TICK = pl.duration(microseconds=1)
RANKS = {
    "rank1": price < 10_000,
    "rank2": price.is_between(10_000, 1_000_000, closed="left"),
    "rank3": price >= 1_000_000,
}


def q0(bids: Stream) -> Stream:
    """Pass all bids through."""
    return bids.select("auction", "bidder", "price", "extra")


def q1(bids: Stream) -> Stream:
    """Convert prices from dollars to euros."""
    # a Float64, where SQL has a decimal
    return bids.select("auction", "bidder", "extra", price=0.908 * price)


def q2(bids: Stream) -> Stream:
    """Select the bids on every 123rd auction."""
    return bids.where(pl.col("auction") % 123 == 0).select("auction", "price")


def q3(persons: Stream, auctions: Stream) -> Stream:
    """Find who sells in a category in three states."""
    sellers = persons.where(pl.col("state").is_in(["OR", "ID", "CA"]))
    sellers = sellers.select("name", "city", "state", seller="id")
    offers = auctions.where(pl.col("category") == 10).select("id", "seller")
    # an auction may come before its seller, and both count for ever
    return sellers.never_ends().join(offers.never_ends(), on="seller")


def find_bids_in_time(auctions: Stream, bids: Stream) -> Stream:
    """Return each bid that came while its auction was open, as a point when that closes."""
    # the last moment of an auction is one of it
    left = pl.col("expires") - pl.col("start") + TICK
    open_auctions = auctions.alter_event_duration(left)
    in_time = bids.join(open_auctions, on={"auction": "id"}, suffix="_of_auction")
    return in_time.alter_event_duration(left).point_at_end()


def find_final_prices(auctions: Stream, bids: Stream) -> Stream:
    """Return the highest price of each auction, as a point when it closes."""
    offers = auctions.select("id", "seller", "category", "expires")
    offered = find_bids_in_time(offers, bids.select("auction", "price"))
    by_auction = offered.group_by("auction", "seller", "category")
    return by_auction.snapshot_window().aggregate(final=agg.max("price"))


def q4(auctions: Stream, bids: Stream) -> Stream:
    """Compute the average final price of each category."""
    # compared when all is over; never_ends and a snapshot window have the average so far
    closed = find_final_prices(auctions, bids)
    return closed.group_by("category").whole_window().aggregate(final=agg.avg("final"))


def q5(bids: Stream) -> Stream:
    """Find the auctions with most bids of the last ten seconds, every two."""
    windows = bids.group_by("auction").hopping_window(
        "10s", "2s", output=rxt.WindowOutput.POINT_AT_END
    )
    return windows.aggregate(num=agg.count()).snapshot_window().top_k(1, "num", rank=None)


def q6(auctions: Stream, bids: Stream) -> Stream:
    """Compute the average final price of the last ten auctions of each seller."""
    # one result each time that auctions of a seller close: auctions that close together count once
    closed = find_final_prices(auctions, bids).group_by("seller")
    return closed.count_window(10, partial=True).aggregate(avg_price=agg.avg("final"))


def q7(bids: Stream) -> Stream:
    """Find the highest bids of each ten seconds."""
    timed = bids.select("auction", "bidder", "price", "extra", time=rxt.start())
    return timed.tumbling_window("10s").top_k(1, "price", rank=None)


def q8(persons: Stream, auctions: Stream) -> Stream:
    """Find persons who came, and opened auctions, within the same ten seconds."""
    came = persons.group_by("id", "name").tumbling_window("10s").aggregate(n=agg.count())
    sold = auctions.group_by("seller").tumbling_window("10s").aggregate(n=agg.count())
    return came.drop("n").join(sold.drop("n"), on={"id": "seller"})


def q9(auctions: Stream, bids: Stream) -> Stream:
    """Find the winning bid of each auction."""
    # one result for each auction, when it closes
    timed = bids.select("auction", "bidder", "price", "extra", bid_time=rxt.start())
    offered = find_bids_in_time(auctions.with_columns(time=rxt.start()), timed)
    order = [price, pl.col("bid_time")]
    windows = offered.group_by("auction").snapshot_window()
    return windows.top_k(1, order, descending=[True, False], ties="first", rank=None)


def q10(bids: Stream) -> Stream:
    """Name the file in which each bid is logged."""
    # the two fields name folders in SQL; AppendFile("bids.csv", roll="1m") names files by minutes
    day, minute = rxt.start().dt.strftime("%Y-%m-%d"), rxt.start().dt.strftime("%H:%M")
    return bids.select("auction", "bidder", "price", "extra", dt=day, hm=minute)


def q11(bids: Stream) -> Stream:
    """Count the bids of each session of a bidder."""
    # a gap of exactly ten seconds is within a session of Flink: the timeout is one tick longer
    return bids.group_by("bidder").session_window("10s1us").aggregate(bid_count=agg.count())


def q12(arrivals: Stream) -> Stream:
    """Count the bids of a bidder in each ten seconds of processing time."""
    # the time of arrival stands for the time of processing, so that a run can be repeated
    return arrivals.group_by("bidder").tumbling_window("10s").aggregate(bid_count=agg.count())


def q13(bids: Stream, side: Stream) -> Stream:
    """Add a value of a table to each bid."""
    timed = bids.select("auction", "bidder", "price")
    return timed.join(side, on=[(pl.col("auction") % 10_000, "key")]).drop("key")


def q14(bids: Stream) -> Stream:
    """Select bids by their price in euros, with their time of day and a count of letters."""
    hour, euros = rxt.start().dt.hour(), 0.908 * price
    time_type = (
        pl.when(hour.is_between(8, 18))
        .then(pl.lit("dayTime"))
        .when((hour <= 6) | (hour >= 20))
        .then(pl.lit("nightTime"))
        .otherwise(pl.lit("otherTime"))
    )
    # the count is a user's function in SQL, and an expression of polars
    letters = pl.col("extra").str.count_matches("c", literal=True)
    kept = bids.where(euros > 1_000_000, euros < 50_000_000)
    return kept.select("auction", "bidder", "extra", price=euros, time_type=time_type, c=letters)


def count_by_rank(of: str | None = None) -> dict[str, agg.Aggregate]:
    """Return the counts of bids, or of the distinct values of a field, in all and by price."""
    count = agg.count if of is None else agg.count_distinct
    what = () if of is None else (of,)
    name = of or "bid"
    ranks = {f"{rank}_{name}s": count(*what, where=part) for rank, part in RANKS.items()}
    return {f"total_{name}s": count(*what), **ranks}


def q15(bids: Stream) -> Stream:
    """Count bids, bidders and auctions by price, of each day."""
    # one result for each day, when it is over; changing_q15 has one for each bid
    counts = {**count_by_rank(), **count_by_rank("bidder"), **count_by_rank("auction")}
    return bids.tumbling_window("1d").aggregate(**counts)


def q16(bids: Stream) -> Stream:
    """Count bids, bidders and auctions by price, of each channel and day."""
    counts = {**count_by_rank(), **count_by_rank("bidder"), **count_by_rank("auction")}
    # the latest minute is that of the latest time
    windows = bids.group_by("channel").tumbling_window("1d")
    days = windows.aggregate(minute=agg.max(rxt.start()), **counts)
    return days.with_columns(minute=pl.col("minute").dt.strftime("%H:%M"))


def q17(bids: Stream) -> Stream:
    """Report the bids and prices of each auction and day."""
    return (
        bids.group_by("auction")
        .tumbling_window("1d")
        .aggregate(
            **count_by_rank(),
            min_price=agg.min("price"),
            max_price=agg.max("price"),
            avg_price=agg.avg("price"),
            sum_price=agg.sum("price"),
        )
    )


def q18(bids: Stream) -> Stream:
    """Find the last bid of each bidder on each auction."""
    # a bid lasts until the next one; those that never end are the last state of the table
    return bids.to_signal(["bidder", "auction"])


def q19(bids: Stream) -> Stream:
    """Find the ten highest bids of each auction."""
    # compared when all is over; changing_q19 has the ten highest so far
    windows = bids.with_columns(time=rxt.start()).group_by("auction").whole_window()
    return windows.top_k(10, "price", ties="first", rank="rank_number")


def q20(bids: Stream, auctions: Stream) -> Stream:
    """Add its auction to each bid, of one category."""
    # a bid may come before its auction, and both count for ever
    timed = bids.with_columns(bid_time=rxt.start()).never_ends()
    offers = auctions.where(pl.col("category") == 10).with_columns(auction_time=rxt.start())
    return timed.join(offers.never_ends(), on={"auction": "id"}, suffix="_of_auction")


def q21(bids: Stream) -> Stream:
    """Add the id of its channel to each bid."""
    known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    name = pl.col("channel").str.to_lowercase()
    in_url = pl.col("url").str.extract(r"(&|^)channel_id=([^&]*)", 2)
    channel_id = pl.coalesce(name.replace_strict(known, default=None), in_url)
    named = bids.select("auction", "bidder", "price", "channel", channel_id=channel_id)
    return named.where(pl.col("channel_id").is_not_null())


def q22(bids: Stream) -> Stream:
    """Split the address of each bid."""
    part = pl.col("url").str.split("/").list
    folders = {f"dir{n}": part.get(n + 2, null_on_oob=True) for n in (1, 2, 3)}
    return bids.select("auction", "bidder", "price", "channel", **folders)


def changing_q15(bids: Stream) -> Stream:
    """Count bids, bidders and auctions of each day so far, anew with each bid."""
    # the results that never end are the last state of the table
    counts = {**count_by_rank(), **count_by_rank("bidder"), **count_by_rank("auction")}
    by_day = bids.group_by(day=rxt.start().dt.truncate("1d")).never_ends()
    return by_day.snapshot_window().aggregate(**counts)


def changing_q19(bids: Stream) -> Stream:
    """Find the ten highest bids of each auction so far, anew with each bid."""
    # the results that never end are the last state of the table
    by_auction = bids.with_columns(time=rxt.start()).group_by("auction").never_ends()
    return by_auction.snapshot_window().top_k(10, "price", ties="first", rank="rank_number")
