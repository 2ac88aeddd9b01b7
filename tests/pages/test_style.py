"""Colours of the style sheet: legible on the ground they stand on, in light, dark and print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import actors.pages

STYLE = (Path(actors.pages.__file__).parent / "templates" / "style.css").read_text()
TEXT = ("text", "muted", "link", "mark", "good", "bad")
LINES = ("axis", "focus", *(f"series-{number}" for number in range(1, 9)))


def palettes() -> dict[str, dict[str, str]]:
    light, dark, printed = (
        dict(re.findall(r"--([\w-]+): (#\w{6});", part)) for part in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    )
    return {"light": light, "dark": dark, "print": light | printed}


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["light", "dark", "print"])
def test_contrast(name: str) -> None:
    palette = palettes()[name]
    for ground in ("surface", "raised"):
        for text in TEXT:
            assert contrast(palette[text], palette[ground]) >= 4.5, (text, ground)
        for line in LINES:
            assert contrast(palette[line], palette[ground]) >= 3.0, (line, ground)


def test_every_colour_is_a_variable_that_all_palettes_have() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", STYLE))
    for palette in palettes().values():
        assert used <= palette.keys()
    outside = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b", outside)
    assert "url(" not in STYLE
    assert "@import" not in STYLE
