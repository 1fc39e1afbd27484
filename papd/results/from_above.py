"""A twin drawn from above: the ground where no cost is charged in white, the way it came, the agent and its heading."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import UInt8

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

CHARGED, FREE, LINE, TRACK, AGENT = (
    (246, 214, 202),
    (255, 255, 255),
    (90, 90, 90),
    (0, 114, 178),
    (213, 94, 0),
)

Place = Callable[[float, float], tuple[float, float]]


class View(NamedTuple):
    """A piece of the plane: pixels wide and high, metres wide, and how far the middle may leave x = 0."""

    width: int
    height: int
    metres: float
    follows: bool

    def place(self, middle: float) -> Place:
        """From metres to pixels."""
        scale = self.width / self.metres
        return lambda x, y: (self.width / 2 + (x - middle) * scale, self.height / 2 - y * scale)


RUN = View(640, 320, 16.0, follows=True)
CIRCLE = View(480, 480, 26.0, follows=False)

SIDELINE_RUN, SIDELINE_CIRCLE, RADIUS = 2.0, 6.0, 7.0
"""Of the tasks, as in ``papd.envs.twins.tasks``."""


def draw(
    view: View, x: float, y: float, heading: float | None, track: Sequence[tuple[float, float]]
) -> UInt8[np.ndarray, "height width 3"]:
    """One picture."""
    from PIL import Image, ImageDraw

    middle = x if view.follows else 0.0
    place = view.place(middle)
    image = Image.new("RGB", (view.width, view.height), CHARGED)
    pen = ImageDraw.Draw(image)
    if view.follows:
        _lane(pen, place, middle, view.metres)
    else:
        _ring(pen, place, view.metres)
    if len(track) > 1:
        pen.line([place(*point) for point in track], fill=TRACK, width=2)
    _agent(pen, place, x, y, heading)
    return np.asarray(image)


def _box(
    pen: "ImageDraw", place: Place, corners: tuple[float, float, float, float], color: tuple[int, int, int]
) -> None:
    left, bottom, right, top = corners
    pen.rectangle([*place(left, top), *place(right, bottom)], fill=color)


def _lane(pen: "ImageDraw", place: Place, middle: float, metres: float) -> None:
    left, right = middle - metres, middle + metres
    _box(pen, place, (left, -SIDELINE_RUN, right, SIDELINE_RUN), FREE)
    for x in range(math.floor(left), math.ceil(right)):
        pen.line([place(x, -0.1), place(x, 0.1)], fill=LINE)
        if x % 5 == 0:
            pen.text(place(x + 0.1, -SIDELINE_RUN - 0.1), f"{x} m", fill=LINE)


def _ring(pen: "ImageDraw", place: Place, metres: float) -> None:
    _box(pen, place, (-SIDELINE_CIRCLE, -metres, SIDELINE_CIRCLE, metres), FREE)
    pen.ellipse([*place(-RADIUS, RADIUS), *place(RADIUS, -RADIUS)], outline=LINE)


def _agent(pen: "ImageDraw", place: Place, x: float, y: float, heading: float | None) -> None:
    if heading is None:
        pen.ellipse([*place(x - 0.4, y + 0.4), *place(x + 0.4, y - 0.4)], fill=AGENT)
        return
    ahead, aside = (math.cos(heading), math.sin(heading)), (-math.sin(heading), math.cos(heading))
    corners = ((0.5, 0.0), (-0.4, 0.3), (-0.4, -0.3))
    points = [(x + a * ahead[0] + b * aside[0], y + a * ahead[1] + b * aside[1]) for a, b in corners]
    pen.polygon([place(*point) for point in points], fill=AGENT)
