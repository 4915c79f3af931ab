"""A service for readings of devices: the mean of each minute and device, as it becomes final."""

import rxtemporal as rxt
from rxtemporal import agg

# with a hand-off the service accepts rows while a sink is away
readings = rxt.PushSource(
    "readings",
    schema={"device": str, "temp": float},
    start="time",
    seq="seq",
    delay="5s",
    hand_off=rxt.HandOff(),
)
app = rxt.Application("house")
minutes = readings.stream.group_by("device").tumbling_window("1m")
app.query("by_device", minutes.aggregate(n=agg.count(), mean=agg.mean("temp")))
