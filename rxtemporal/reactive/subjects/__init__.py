"""Subjects: many producers in, one temporal stream out."""

from __future__ import annotations

from rxtemporal.reactive.subjects.alternate import CtiSynchronizingSubjectAlternate
from rxtemporal.reactive.subjects.synchronizer import CtiSynchronizingSubject
from rxtemporal.reactive.subjects.transform import TransformSubject

__all__ = ["CtiSynchronizingSubject", "CtiSynchronizingSubjectAlternate", "TransformSubject"]
