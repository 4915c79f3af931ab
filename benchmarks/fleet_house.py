"""The application that each process of a fleet serves: the readings that it has accepted."""

import rxtemporal as rxt

# a device has its own time, so that one that was offline loses nothing; no row waits for another
# device, but devices within a minute of each other are computed together
readings = rxt.PushSource(
    "readings",
    schema={"device": str, "n": int, "temp": float},
    unit="s",
    seq="seq",
    delay="1m",
    clock="device",
)
app = rxt.Application("fleet")
app.query("accepted", readings.stream)
