"""What a reader noticed in a bag: counted, with the first few examples, never silent."""

from collections import Counter
from dataclasses import dataclass, field

MOST_EXAMPLES = 20


@dataclass(frozen=True)
class Gap:
    """Two states of one segment that are further apart than 1.5 periods."""

    stamp: int
    """Of the state before it [ns]."""
    length: float
    """[s]"""


@dataclass
class Findings:
    """Complete when the bag has been read to its end."""

    messages: Counter[str] = field(default_factory=Counter)
    """Messages read, by topic."""
    rows: int = 0
    """States given out."""
    segments: int = 0
    """1 for a bag whose stamps only rise; one more for each jump back of the clock."""
    period: float = 0.0
    """Typical time between two states [s]; 0 for fewer than two."""
    gaps: int = 0
    longest_gap: float = 0.0
    """[s]"""
    first_gaps: list[Gap] = field(default_factory=list)
    repeated_stamps: int = 0
    """States that bear the stamp of the one before; left out."""
    repeated_rows: int = 0
    """States with new stamps and the numbers of the one before; kept."""
    late: int = 0
    """States that are a little older than the one before; left out."""
    jumps_back: list[tuple[int, int]] = field(default_factory=list)
    """Stamps before and after each jump of the clock [ns]."""
    without_command: int = 0
    """States that no command answers."""
    commands_without_state: int = 0
    """Commands that answer no state, or one that was answered already."""
    not_finite: int = 0
    """States or commands with a NaN or an infinity; left out."""
    not_finite_first: str = ""
    foreign: int = 0
    """Messages of a topic that lack the arm's joints or a field of theirs; left out."""
    foreign_first: str = ""
    malformed: int = 0
    """Messages that cannot be decoded; left out."""
    malformed_first: str = ""
    undeclared_effort: int = 0
    """States that carry an effort whose unit nobody declared; it is not used."""
    references: int = 0
    refused_references: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Other remarks: what was missing, damaged or odd."""
    partial: list[str] = field(default_factory=list)
    """Why this is only a part of what was recorded; empty for a whole bag."""

    def note(self, text: str) -> None:
        """A remark, told once."""
        if text not in self.notes and len(self.notes) < MOST_EXAMPLES:
            self.notes.append(text)

    def missing(self, text: str) -> None:
        """A reason why the result is partial, told once."""
        if text not in self.partial and len(self.partial) < MOST_EXAMPLES:
            self.partial.append(text)

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON; what was not found is left out."""
        found: dict[str, object] = {"rows": self.rows, "segments": self.segments, "period_s": self.period}
        found["messages"] = dict(self.messages)
        for name in _COUNTS:
            if getattr(self, name):
                found[name] = getattr(self, name)
        if self.gaps:
            found["longest_gap_s"] = self.longest_gap
            found["first_gaps"] = [{"stamp_ns": gap.stamp, "length_s": gap.length} for gap in self.first_gaps]
        for name in ("jumps_back", "refused_references", "notes", "partial"):
            if getattr(self, name):
                found[name] = [list(one) if isinstance(one, tuple) else one for one in getattr(self, name)]
        return found

    def sentences(self) -> list[str]:
        """The same for people."""
        told = [f"partial: {reason}" for reason in self.partial]
        if self.gaps:
            told.append(f"{self.gaps} gaps, the longest {1e3 * self.longest_gap:.0f} ms")
        if self.jumps_back:
            told.append(f"the clock jumped back {len(self.jumps_back)} times")
        told += [f"{getattr(self, name)} {text}" for name, text in _COUNTS.items() if text and getattr(self, name)]
        firsts = (self.not_finite_first, self.foreign_first, self.malformed_first)
        return [*told, *(f"first: {text}" for text in firsts if text), *self.refused_references, *self.notes]


_COUNTS = {
    "gaps": "",
    "repeated_stamps": "repeated stamps",
    "repeated_rows": "rows that repeat the one before",
    "late": "states out of order",
    "without_command": "states without a command",
    "commands_without_state": "commands without a state",
    "not_finite": "messages with numbers that are not finite",
    "foreign": "messages of other joints",
    "malformed": "malformed messages",
    "undeclared_effort": "states with an effort of undeclared unit",
    "references": "",
}
