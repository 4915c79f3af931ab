"""The sample queries behind many cases: Trill's query writing guide, and HelloToll.

Names such as ``fig24`` are figures of the guide, whose queries build upon one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC
from typing import Any

import polars as pl
from golden_cases import Given

import rxtemporal as rxt
from rxtemporal import agg

Payload = dict[str, Any]

HOUR = 3600
MINUTE = 60_000_000


def reporting(rows: rxt.Streamable, size: int, period: int) -> rxt.Streamable:
    """The other engine's windows: a row reports for ``size`` from the next boundary on."""
    return rows.alter_event_lifetime(start=lambda t: -(-t // period) * period, duration=size)


# Trill's query writing guide ----------------------------------------------------------------------


def infinite(rows: rxt.Streamable) -> rxt.Streamable:
    """Rows that never end."""
    return rows.alter_event_duration(rxt.MAX_TIME)


def self_clip(rows: rxt.Streamable) -> rxt.Streamable:
    """Each row until the next one of the same processor."""
    endless = infinite(rows)
    return endless.clip_event_duration(endless, on="CpuId")


def fig24(given: Given) -> rxt.Streamable:
    """Context switches of the first two processors, with the names of the processes."""
    switches = given.stream().where(pl.col("CpuId").is_in([1, 2]))
    switches = switches.select("Tick", "ProcessId", "CpuId")
    return switches.join(given.stream("names"), on="ProcessId")


FIGURES: dict[str, Callable[[Given], rxt.Streamable]] = {
    "fig24": fig24,
    "fig28": lambda given: infinite(fig24(given)),
    "fig30": lambda given: self_clip(fig24(given)),
}


def time_slices(switches: rxt.Streamable) -> rxt.Streamable:
    """The time that each process had a processor, as a point at the switch that ended it."""
    signal = self_clip(switches).shift_event_time(1)
    until = switches.select("CpuId", Until="Tick")
    slices = signal.join(until, on="CpuId")
    return slices.select("ProcessId", "CpuId", "Name", Timeslice=pl.col("Until") - pl.col("Tick"))


def fig36(given: Given) -> rxt.Streamable:
    """The time slices of the first two processors."""
    return time_slices(fig24(given))


def fig44(given: Given) -> rxt.Streamable:
    """One process's time on one processor, for each hour."""
    chosen = fig36(given).where(pl.col("ProcessId") == 1, pl.col("CpuId") == 1)
    return reporting(chosen, HOUR, HOUR).snapshot_window().aggregate(total=agg.sum("Timeslice"))


def fig46(given: Given) -> rxt.Streamable:
    """Each process's time on each processor, for each hour."""
    grouped = fig36(given).group_by("CpuId", "ProcessId", "Name")
    window = reporting(grouped, HOUR, HOUR).snapshot_window()
    return window.aggregate(TotalTime=agg.sum("Timeslice")).drop("ProcessId")


def chopped(switches: rxt.Streamable) -> rxt.Streamable:
    """Context switches, one more at each full hour for whatever is running then."""
    whole = rxt.IntervalEvent(0, 3 * HOUR, {"recording": 1})
    recording = rxt.from_events([whole], schema={"recording": pl.Int64})
    pieces = self_clip(switches).cross_join(recording).drop("recording").chop(HOUR)
    return with_start(pieces, "Tick").to_point_events()


def fig53(given: Given) -> rxt.Streamable:
    """The context switches of all processors, and those that each full hour adds."""
    return chopped(given.stream())


def with_start(rows: rxt.Streamable, field: str) -> rxt.Streamable:
    """Rows with their start as a field."""

    def stamped(state: None, start: int, payload: Payload) -> tuple[None, Payload]:
        return state, {**payload, field: start}

    return rows.scan(None, stamped, schema={**rows.schema, field: pl.Int64})


def fig55(given: Given) -> rxt.Streamable:
    """The process that had most time in each hour."""
    switches = chopped(given.stream().where(pl.col("CpuId").is_in([1, 2])))
    slices = time_slices(switches.join(given.stream("names"), on="ProcessId"))
    window = reporting(slices.group_by("ProcessId", "Name"), HOUR, HOUR).snapshot_window()
    totals = window.aggregate(TotalTime=agg.sum("Timeslice"))
    most = with_start(totals.snapshot_window().top_k(1, "TotalTime"), "PeriodEnd")
    return most.select(
        "PeriodEnd",
        PeriodStart=pl.col("PeriodEnd") - HOUR,
        ProcessName="Name",
        TotalCpuConsumed="TotalTime",
    )


# HelloToll ----------------------------------------------------------------------------------------

AMOUNTS = {"TollAmount": agg.sum("Toll"), "VehicleCount": agg.count()}


def tolls(given: Given) -> rxt.Streamable:
    """The toll booths' vehicles; what the sample reads as text is text, numbers included."""
    return given.stream().with_columns(pl.col("Tag", "TollId").cast(pl.String).fill_null(""))


def hopping_amounts(given: Given) -> rxt.Streamable:
    """Tolls and vehicles of each booth, window by window."""
    window = (
        tolls(given)
        .group_by("TollId")
        .hopping_window(*given.spans("size", "hop"), output=given.output)
    )
    return window.aggregate(**AMOUNTS)


def sliding(given: Given) -> rxt.Streamable:
    """Tolls and vehicles of each booth in the last minute, at each moment."""
    rows = tolls(given).group_by("TollId").extend_lifetime(MINUTE)
    return rows.snapshot_window().aggregate(**AMOUNTS)


def sliding_altered(given: Given) -> rxt.Streamable:
    """The same by a function of the row, as the sample writes it."""
    rows = tolls(given).alter_event_duration(lambda row: row.end - row.start + MINUTE)
    return rows.group_by("TollId").snapshot_window().aggregate(**AMOUNTS)


def moving_average(given: Given) -> rxt.Streamable:
    """The mean toll of each booth in the last minute, whenever it changes."""
    mean = pl.col("TollAmount") / pl.col("VehicleCount")
    return sliding(given).select("TollId", AverageToll=mean).to_point_events()


def booths(given: Given, joined: Callable[..., rxt.Streamable]) -> rxt.Streamable:
    """The first two booths together."""
    amounts = sliding(given)
    one, two = (
        amounts.where(pl.col("TollId") == str(n)).select("VehicleCount", **{f"TollId{n}": "TollId"})
        for n in (1, 2)
    )
    return joined(one, two).select("TollId1", "TollId2", "VehicleCount")


def cross_join(given: Given) -> rxt.Streamable:
    """The vehicles of both booths, at each moment."""
    return booths(given, lambda one, two: one.cross_join(two.drop("VehicleCount")))


def theta_join(given: Given) -> rxt.Streamable:
    """The moments at which the first booth had more vehicles than the second."""
    more = pl.col("VehicleCount") > pl.col("VehicleCount_2")
    return booths(given, lambda one, two: one.join(two, where=more, suffix="_2"))


def vehicles_and_payments(given: Given) -> tuple[rxt.Streamable, rxt.Streamable]:
    """Every vehicle, and the tolls of those that are not Toyotas."""
    vehicles = tolls(given)
    paid = vehicles.where(pl.col("Make") != "Toyota").select("LicensePlate", "Toll", "TollId")
    return vehicles.select("LicensePlate", "Make", "Model"), paid


def left_outer_join(given: Given) -> rxt.Streamable:
    """Every vehicle, with its toll unless it is a Toyota."""
    vehicles, paid = vehicles_and_payments(given)
    return vehicles.left_outer_join(paid, on="LicensePlate")


def tumbling_topk(given: Given) -> rxt.Streamable:
    """The highest two amounts in three minutes; for one case of the first booth only."""
    window = sliding(given).tumbling_window(3 * MINUTE, output=given.output)
    ranked = window.top_k(2, "TollAmount")
    if "then" in given.params:
        ranked = ranked.where(pl.col("TollId") == "1")
    return ranked.select("TollId", "TollAmount", "VehicleCount", TollRank="rank")


class OutOfState(agg.UserDefinedAggregate):
    """The share of vehicles that come from elsewhere."""

    def compute(self, values: list[str]) -> float:
        """Of all states seen, those that are not New York."""
        return sum(state != "NY" for state in values) / len(values)


def tumbling_uda(given: Given) -> rxt.Streamable:
    """A user-defined aggregate, to as many digits as the case has."""
    window = tolls(given).tumbling_window(*given.spans("size"), output=given.output)
    return window.aggregate(share=OutOfState("State")).select(pl.col("share").round(6))


def weighed(
    rows: Iterable[rxt.IntervalEvent[Payload]], window: Any
) -> Iterable[rxt.IntervalEvent[Payload]]:
    """A user-defined operator: the weight charge of heavy vehicles, double by day."""
    for row in rows:
        if row.payload["VehicleType"] == 2:
            day = 7 <= rxt.to_datetime(row.start).astimezone(UTC).hour <= 14
            weight = row.payload["VehicleWeight"]
            charge = {
                "LicensePlate": row.payload["LicensePlate"],
                "Weight": weight,
                "WeightCharge": (2 if day else 1) * 0.5 * weight,
            }
            yield rxt.IntervalEvent(row.start, row.end, charge)


def tumbling_udo(given: Given) -> rxt.Streamable:
    """Weight charges for each hour; the sample's operator lets a row keep its lifetime."""
    window = tolls(given).tumbling_window(*given.spans("size"), output=given.output)
    schema = {"LicensePlate": pl.String, "Weight": pl.Float64, "WeightCharge": pl.Float64}
    return window.apply(weighed, schema=schema, time_sensitive=True)
