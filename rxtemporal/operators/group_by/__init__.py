"""group_by, ungroup and apply: operators computed for each key; multicast: a stream used twice."""
