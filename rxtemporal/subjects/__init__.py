"""Subjects: many producers in, one temporal stream out."""

from __future__ import annotations

from rxtemporal.subjects.alternate import CtiSynchronizingSubjectAlternate
from rxtemporal.subjects.synchronizing import CtiSynchronizingSubject
from rxtemporal.subjects.transform import TransformSubject

__all__ = ["CtiSynchronizingSubject", "CtiSynchronizingSubjectAlternate", "TransformSubject"]
