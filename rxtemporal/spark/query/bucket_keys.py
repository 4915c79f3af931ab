"""Keys of buckets by which Spark spreads them evenly over its partitions.

Spark assigns a group to the partition ``hash(key) mod partitions``. The hashes of 0, 1, 2 … leave a
third of the partitions empty and give others several buckets. The hash can be inverted: here the
key of bucket ``n`` is a number whose hash is ``n``, so that bucket ``n`` is in partition
``n mod partitions``, however many there are.

The hash is Murmur3 of two 32-bit words, the lower one first, with Spark's seed 42 (Austin Appleby,
MurmurHash3_x86_32). All of its steps are bijections of 32 bits: the lower word is 0 here, and the
upper one follows from the hash by the steps backwards.
"""

from __future__ import annotations

_SEED, _BITS = 42, 32
_MASK = (1 << _BITS) - 1
_C1, _C2, _N = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_F1, _F2 = 0x85EBCA6B, 0xC2B2AE35


def make_bucket_key(bucket: int) -> int:
    """Return the 64-bit integer whose hash in Spark is the number of a bucket."""
    # after the lower word, which is 0 and leaves the seed as it is
    after_lower = (_rotate(_SEED, 13) * 5 + _N) & _MASK
    hashed = _unmix(bucket) ^ 8  # the number of bytes
    mixed = _rotate((hashed - _N) * _invert(5) & _MASK, _BITS - 13) ^ after_lower
    upper = _rotate(mixed * _invert(_C2) & _MASK, _BITS - 15) * _invert(_C1) & _MASK
    return (upper << _BITS) - (upper >> (_BITS - 1) << (2 * _BITS))


def _unmix(value: int) -> int:
    """Undo the final mix."""
    value ^= value >> 16
    value = value * _invert(_F2) & _MASK
    value ^= value >> 13 ^ value >> 26
    value = value * _invert(_F1) & _MASK
    return value ^ value >> 16


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (_BITS - by)) & _MASK


def _invert(factor: int) -> int:
    inverse: int = pow(factor, -1, 1 << _BITS)
    return inverse
