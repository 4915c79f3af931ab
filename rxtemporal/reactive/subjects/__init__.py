"""Subjects that merge many producers into one temporal stream."""

from __future__ import annotations

from rxtemporal.reactive.subjects.alternate import CtiSynchronizingSubjectAlternate
from rxtemporal.reactive.subjects.synchronizer import CtiSynchronizingSubject
from rxtemporal.reactive.subjects.transform import TransformSubject

__all__ = ["CtiSynchronizingSubject", "CtiSynchronizingSubjectAlternate", "TransformSubject"]
