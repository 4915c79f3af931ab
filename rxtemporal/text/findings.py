"""Results of checks of machines, with advice."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check; ``advice`` says what to do and is empty if all is well.

    ``optional``: runs work without it.
    """

    name: str
    ok: bool
    detail: str
    advice: str = ""
    optional: bool = False

    @property
    def bad(self) -> bool:
        """True if a run fails without it."""
        return not self.ok and not self.optional

    def __str__(self) -> str:
        """Return the result in a line, and the advice in another."""
        mark = "ok " if self.ok else "BAD" if self.bad else "no "
        lines = [f"{mark}  {self.name:<12} {self.detail}"]
        if not self.ok and self.advice:
            lines.append(f"     {'':<12} {self.advice}")
        return "\n".join(lines)
