"""Makes a picture of a page small: as many colours as a palette has, packed as well as can be."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

_COLOURS = 256
# The browser that made the picture reads it too.
_READ = """async (png) => {
    const picture = await createImageBitmap(await (await fetch(png)).blob());
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    const {data} = context.getImageData(0, 0, picture.width, picture.height);
    const parts = [];
    for (let i = 0; i < data.length; i += 32768) {
        parts.push(String.fromCharCode(...data.subarray(i, i + 32768)));
    }
    return [picture.width, picture.height, btoa(parts.join(""))];
}"""


def small_png(png: bytes, browser: Any) -> bytes:
    """The same picture with at most 256 colours: the commonest of all, and of the others those
    that are farthest from what is there, until the palette is full."""
    page = browser.new_page()
    width, height, told = page.evaluate(
        _READ, f"data:image/png;base64,{base64.b64encode(png).decode()}"
    )
    page.close()
    pixels = np.frombuffer(base64.b64decode(told), np.uint8).reshape(-1, 4)[:, :3]
    colours, places, counts = np.unique(pixels, axis=0, return_inverse=True, return_counts=True)
    palette = _palette(colours.astype(int), counts)
    nearest = _distances(colours.astype(int), palette).argmin(1).astype(np.uint8)
    rows = nearest[places.ravel()].reshape(height, width)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows), 9)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", body),
            _chunk(b"IEND", b""),
        )
    )


def _palette(colours: Any, counts: Any) -> Any:
    chosen = [int(counts.argmax())]
    left = _distances(colours, colours[chosen])[:, 0]
    while len(chosen) < min(_COLOURS, len(colours)):
        # Weighed a little by how often it is seen.
        chosen.append(int((left * np.sqrt(counts)).argmax()))
        left = np.minimum(left, _distances(colours, colours[chosen[-1:]])[:, 0])
    return colours[chosen]


def _distances(colours: Any, others: Any) -> Any:
    return ((colours[:, None, :] - others[None, :, :]) ** 2).sum(2)


def _chunk(name: bytes, content: bytes) -> bytes:
    checked = name + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
