"""The Rx side: synchronizing, steps as observables, the clock, and the subjects."""
