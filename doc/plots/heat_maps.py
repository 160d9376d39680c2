"""Heat maps as SVG: one row for each device, one column for each step of time; the cells are an embedded PNG."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _LEFT, _RIGHT = 900, 70, 130
_TOP, _MAP, _GAP, _BOTTOM = 48, 132, 18, 40
_SPAN = _WIDTH - _LEFT - _RIGHT
#: Red, green and blue at equal distances between the ends of a scale: dark blue, green, yellow.
_COLOURS = ((48, 18, 89), (38, 107, 156), (40, 160, 120), (160, 200, 60), (250, 230, 40))
#: Colours of a picture.
_SHADES = 64
_STYLE = """
  text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 13px; fill: #333 }
  .title { font-size: 17px; font-weight: bold; fill: #111 }
  .label { font-weight: bold }
  .frame { fill: none; stroke: #999 }
  image { image-rendering: pixelated }
"""


@dataclass(frozen=True)
class HeatMap:
    """One quantity of devices over the time.

    :param label: with the unit.
    :param rows: the values of each device, top down.
    :param ends: the values with the first and with the last colour.
    """

    label: str
    rows: Sequence[Sequence[float]]
    ends: tuple[float, float]

    def png(self) -> bytes:
        """The cells as a picture with a pixel each; uncompressed, so that its bytes are the same everywhere."""
        low, high = self.ends
        factor = (_SHADES - 1) / (high - low)
        lines = b"".join(
            b"\0" + bytes(min(max(round((value - low) * factor), 0), _SHADES - 1) for value in row) for row in self.rows
        )
        palette = b"".join(bytes(_colour(shade / (_SHADES - 1))) for shade in range(_SHADES))
        head = struct.pack(">IIBBBBB", len(self.rows[0]), len(self.rows), 8, 3, 0, 0, 0)
        chunks = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", _stored(lines)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


@dataclass(frozen=True)
class HeatMaps:
    """Heat maps above each other that share their time.

    :param hours: how long they are.
    """

    title: str
    maps: Sequence[HeatMap]
    hours: int

    def svg(self) -> str:
        """The chart as an SVG document."""
        height = _TOP + len(self.maps) * (_MAP + _GAP) + _BOTTOM - _GAP
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" role="img">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
            f'<text class="title" x="{_LEFT}" y="28">{escape(self.title)}</text>',
        ]
        for number, each in enumerate(self.maps):
            top = _TOP + number * (_MAP + _GAP)
            picture = base64.b64encode(each.png()).decode()
            lines += [
                f'<image x="{_LEFT}" y="{top}" width="{_SPAN}" height="{_MAP}" preserveAspectRatio="none" '
                f'href="data:image/png;base64,{picture}"/>',
                f'<rect class="frame" x="{_LEFT}" y="{top}" width="{_SPAN}" height="{_MAP}"/>',
                *_scale(each, top),
            ]
        below = _TOP + len(self.maps) * (_MAP + _GAP) - _GAP + 18
        for hour in range(0, self.hours + 1, 3):
            place = _LEFT + _SPAN * hour / self.hours
            lines.append(f'<text x="{place:g}" y="{below}" text-anchor="middle">{hour}</text>')
        lines += [f'<text x="{_LEFT + _SPAN + 14}" y="{below}">hours</text>', "</svg>", ""]
        return "\n".join(lines)


def _scale(heat_map: HeatMap, top: int) -> list[str]:
    """The label and the colours of a map, at its right."""
    left, steps = _LEFT + _SPAN + 14, 24
    height = (_MAP - 30) / steps
    lines = [f'<text class="label" x="{left}" y="{top + 12}">{escape(heat_map.label)}</text>']
    for step in range(steps):
        red, green, blue = _colour(1 - (step + 0.5) / steps)
        at = top + 22 + step * height
        fill = f"rgb({red},{green},{blue})"
        lines.append(f'<rect x="{left}" y="{at:g}" width="14" height="{height + 0.5:g}" fill="{fill}"/>')
    low, high = heat_map.ends
    lines.append(f'<text x="{left + 20}" y="{top + 32}">{high:g}</text>')
    lines.append(f'<text x="{left + 20}" y="{top + _MAP - 8}">{low:g}</text>')
    return lines


def _colour(share: float) -> tuple[int, int, int]:
    place = min(max(share, 0.0), 1.0) * (len(_COLOURS) - 1)
    first = min(int(place), len(_COLOURS) - 2)
    part = place - first
    red, green, blue = (
        round(one + (other - one) * part) for one, other in zip(_COLOURS[first], _COLOURS[first + 1], strict=True)
    )
    return red, green, blue


def _stored(data: bytes) -> bytes:
    """A zlib stream without compression."""
    blocks = [data[begin : begin + 65535] for begin in range(0, len(data), 65535)]
    body = b"".join(
        struct.pack("<BHH", number == len(blocks) - 1, len(block), len(block) ^ 0xFFFF) + block
        for number, block in enumerate(blocks)
    )
    return b"\x78\x01" + body + struct.pack(">I", zlib.adler32(data))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
