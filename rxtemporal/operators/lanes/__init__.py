"""Lanes: copies of a plan's stages, for streams in which each device has a time of its own.

A *device* is a combination of values of some fields of a source. Each has one CTI for each source,
made from its own rows. The plan computes nothing from rows of two devices together; so any devices
may be computed by one copy of its stages, with a CTI that none of theirs is below, and others by
another. A *lane* is such a copy with its devices. The devices that are abreast are in one lane and
cost what a stream with one time costs. Those that fall behind are split off, so that nobody waits
for them, and are merged with the lane above them once they have caught up with it.
"""
