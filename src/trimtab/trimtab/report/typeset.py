"""Tables: rows are made once, then set as plain text for a terminal or as HTML for a page."""

import html
from dataclasses import dataclass

NEVER = "-"
BEST = "*"


@dataclass(frozen=True)
class Cell:
    """One shown value."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Headers and rows, ready to be set; the first column holds names, the others numbers."""

    headers: tuple[tuple[str, str], ...]
    """Title and unit of each column; the unit may be empty."""
    rows: tuple[tuple[Cell, ...], ...]
    footnotes: tuple[str, ...] = ()
    words: tuple[int, ...] = ()
    """Columns beside the first that hold words instead of numbers."""


def as_text(table: Table) -> str:
    """A table set in aligned plain text: names to the left, numbers to the right, no line at the end."""
    # Headers are stacked, so that a comparison fits a narrow terminal.
    stacks = [[*title.rsplit(" ", 1), *([f"[{unit}]"] if unit else [])] for title, unit in table.headers]
    height = max(len(stack) for stack in stacks)
    stacks = [[""] * (height - len(stack)) + stack for stack in stacks]
    lines = [[stack[i] for stack in stacks] for i in range(height)]
    lines += [[cell.text + (BEST if cell.best else "") for cell in row] for row in table.rows]
    # A mark has a column of its own behind the digits: numbers stay aligned.
    lines = [[line[0], *(text if text.endswith(BEST) else text + " " for text in line[1:])] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(stacks))]
    left = {0, *table.words}

    def set_line(line: list[str]) -> str:
        cells = enumerate(zip(line, widths, strict=True))
        return " ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in cells)

    text = [set_line(line) for line in lines]
    text.insert(height, "-" * (len(text[0]) - 1))
    return "\n".join([*(line.rstrip() for line in text), *table.footnotes])


def as_html(table: Table) -> str:
    """The same table as an HTML element; the best of a column has the class `best`, footnotes follow as paragraphs."""
    head = "".join(
        f"<th{' class=words' if i in table.words else ''}>{html.escape(title)}"
        f"{f'<small>{html.escape(unit)}</small>' if unit else ''}</th>"
        for i, (title, unit) in enumerate(table.headers)
    )
    body = "".join(
        f'<tr><th scope="row">{html.escape(row[0].text)}</th>'
        + "".join(
            f"<td{' class=words' if i in table.words else ' class=best' if cell.best else ''}>{html.escape(cell.text)}</td>"
            for i, cell in enumerate(row[1:], 1)
        )
        + "</tr>\n"
        for row in table.rows
    )
    notes = "".join(f'<p class="fault">{html.escape(note)}</p>\n' for note in table.footnotes)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n{notes}'
