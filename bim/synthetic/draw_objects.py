"""Synthetic substitutes for BIM's ten COCO objects, which differ in shape: the colours are those of every class.

Coordinates run from -1 to 1, x to the right and y down. Each function takes a canvas, a generator and a palette, and
varies proportions, pose and parts.
"""

from __future__ import annotations

import numpy as np

from attribution_benchmarks.drawing.canvas import Canvas, brightness_field, palette

_DARK = (28, 26, 30)


def _backpack(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a backpack from the front: rounded body, handle, flap, front pocket, straps at its sides."""
    main, second, light = colours
    width, top = rng.uniform(0.52, 0.64), rng.uniform(-0.72, -0.62)
    for side in (-1, 1):
        strap = [(side * 0.3, top + 0.1), (side * (width + 0.22), -0.2), (side * (width + 0.12), 0.55)]
        canvas.stroke([*strap, (side * 0.45, 0.8)], 0.1, second)
    canvas.stroke([(-0.16, top + 0.06), (-0.13, top - 0.2), (0.13, top - 0.2), (0.16, top + 0.06)], 0.09, second)
    if rng.random() < 0.7:
        for side in (-1, 1):
            canvas.ellipse((side * width, 0.42), (0.17, 0.3), second)
    body = [(0, top), (width * 0.8, top + 0.15), (width, -0.1), (width * 1.02, 0.6), (width * 0.8, 0.84)]
    canvas.blob([*body, (-width * 0.8, 0.84), *[(-x, y) for x, y in body[:0:-1][1:]]], main)
    zip_height = rng.uniform(-0.42, -0.3)
    arch = [(-width * 0.85, 0.0), (-width * 0.6, zip_height), (0, zip_height - 0.1), (width * 0.6, zip_height)]
    canvas.stroke([*arch, (width * 0.85, 0.0)], 0.045, _DARK)
    pocket = rng.uniform(0.1, 0.2)
    inset = width * 0.72
    canvas.blob([(-inset, pocket), (0, pocket - 0.05), (inset, pocket), (inset, 0.7), (-inset, 0.7)], light)
    canvas.stroke([(-inset * 0.85, pocket + 0.13), (inset * 0.85, pocket + 0.13)], 0.04, _DARK)
    canvas.stroke([(inset * 0.5, pocket + 0.13), (inset * 0.5, pocket + 0.27)], 0.05, _DARK)
    if rng.random() < 0.5:
        for side in (-1, 1):
            canvas.stroke([(side * 0.3, top + 0.2), (side * 0.3, 0.05)], 0.06, second)


def _bird(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a bird from the side: drop-shaped body, round head, pointed beak, feathered wing, fan tail."""
    main, second, light = colours
    flying = rng.random() < 0.5
    beak = rng.uniform(0.22, 0.36)
    if flying:
        lift = rng.uniform(0.75, 0.95)
        canvas.polygon([(0.05, -0.05), (-0.2, -lift * 0.85), (-0.05, -lift), (0.3, -0.05)], second)
    tail = rng.uniform(-0.15, 0.2)
    for spread in (-0.14, 0.0, 0.14):
        canvas.limb([(-0.35, 0.12), (-0.95, tail + spread + 0.12)], 0.12, 0.15, second)
    if not flying:
        for x in (-0.05, 0.12):
            canvas.line([(x, 0.35), (x + 0.03, 0.82)], 0.05, _DARK)
            canvas.line([(x - 0.07, 0.86), (x + 0.03, 0.8), (x + 0.18, 0.86)], 0.05, _DARK)
    canvas.blob("-0.6,0.1 -0.25,-0.15 0.25,-0.28 0.52,-0.15 0.42,0.2 0.1,0.42 -0.3,0.34", main)
    canvas.blob("0.0,0.3 0.35,0.0 0.42,0.16 0.12,0.38", light, outlined=False)
    canvas.polygon([(0.72, -0.48), (0.74 + beak, -0.3), (0.7, -0.24)], second)
    canvas.ellipse((0.55, -0.36), rng.uniform(0.22, 0.27), main)
    canvas.ellipse((0.62, -0.42), 0.055, (245, 245, 245), outlined=False)
    canvas.ellipse((0.63, -0.42), 0.032, _DARK, outlined=False)
    if flying:
        edge = [(-0.1, -lift * 0.8), (-0.35, -lift), (-0.42, -lift * 0.75), (-0.5, -lift * 0.6)]
        canvas.polygon([(0.25, -0.05), *edge, (-0.4, -0.3), (-0.25, 0.1)], second)
    else:
        canvas.blob("0.25,-0.12 0.18,0.18 -0.25,0.28 -0.68,0.14 -0.2,-0.08", second)
        for y in (0.08, 0.18):
            canvas.line([(0.05, y - 0.04), (-0.45, y)], 0.03, _DARK)


def _dog(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a dog from the side: level body, long snout, hanging or pricked ear, raised tail."""
    main, second, light = colours
    length, leg = rng.uniform(0.48, 0.62), rng.uniform(0.6, 0.78)
    sitting = rng.random() < 0.35
    head_x, head_y = length - 0.02, -0.5
    shade = main * 0.8
    if sitting:
        canvas.limb([(-0.5, 0.72), (-0.85, 0.62), (-0.95, 0.3)], 0.16, 0.06, main)
        canvas.limb([(0.22, 0.1), (0.28, 0.45), (0.3, 0.82)], 0.22, 0.13, shade)
        canvas.blob("0.42,-0.4 0.05,-0.35 -0.35,0.1 -0.58,0.65 -0.2,0.84 0.2,0.6 0.42,0.15", main)
        canvas.ellipse((-0.26, 0.56), (0.32, 0.26), main)
        canvas.ellipse((-0.02, 0.8), (0.24, 0.09), main)
        canvas.limb([(0.3, 0.0), (0.38, 0.45), (0.4, 0.84)], 0.24, 0.14, main)
        canvas.ellipse((0.46, 0.84), (0.14, 0.07), main)
        head_x = 0.4
    else:
        wag = rng.uniform(-0.8, -0.45)
        canvas.limb([(-length, -0.1), (-length - 0.2, -0.3), (-length - 0.22, wag)], 0.16, 0.05, main)
        stride = rng.uniform(-0.12, 0.12)
        for x, bend in ((-length + 0.22, stride), (length - 0.25, -stride)):
            canvas.limb([(x, 0.1), (x - 0.03 + bend, 0.4), (x + bend, leg)], 0.22, 0.12, shade)
        back = [(-length - 0.05, -0.15), (-0.1, -0.22), (length, -0.3)]
        belly = [(length + 0.08, 0.05), (length - 0.15, 0.28), (-0.1, 0.2), (-length, 0.24)]
        canvas.blob([*back, *belly], main)
        for x, bend in ((-length + 0.08, -stride), (length - 0.1, stride)):
            canvas.limb([(x, 0.05), (x - 0.05 + bend, 0.4), (x + bend, leg + 0.03)], 0.26, 0.13, main)
            canvas.ellipse((x + bend + 0.06, leg + 0.05), (0.13, 0.065), main)
    canvas.limb([(head_x - 0.18, -0.1), (head_x, -0.5)], 0.42, 0.34, main)
    snout = rng.uniform(0.3, 0.46)
    canvas.limb([(head_x + 0.02, head_y + 0.06), (head_x + snout, head_y + 0.14)], 0.3, 0.17, light)
    canvas.ellipse((head_x, head_y), (0.26, 0.23), main)
    canvas.ellipse((head_x + snout, head_y + 0.1), 0.065, _DARK)
    canvas.ellipse((head_x + 0.1, head_y - 0.06), 0.04, _DARK)
    canvas.stroke([(head_x + 0.16, head_y + 0.18), (head_x + snout - 0.04, head_y + 0.2)], 0.03, _DARK)
    if rng.random() < 0.6:
        ear = rng.uniform(0.32, 0.46)
        base = [(head_x - 0.16, head_y - 0.2), (head_x + 0.0, head_y - 0.12)]
        canvas.blob([*base, (head_x - 0.06, head_y + ear), (head_x - 0.26, head_y + ear - 0.12)], second)
    else:
        for x, colour in ((head_x + 0.0, main * 0.8), (head_x - 0.12, main)):
            canvas.polygon([(x - 0.1, head_y - 0.12), (x - 0.04, head_y - 0.4), (x + 0.1, head_y - 0.16)], colour)
    if not sitting and rng.random() < 0.5:
        canvas.ellipse((rng.uniform(-0.3, 0.1), -0.05), (0.2, 0.1), second, outlined=False)
    canvas.stroke([(head_x - 0.2, head_y + 0.32), (head_x + 0.12, head_y + 0.36)], 0.07, second)


def _elephant(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw an elephant from the side: heavy body, pillar legs, large ear, trunk, tusk."""
    main, _, light = colours
    leg = rng.uniform(0.72, 0.84)
    shade = main * 0.78
    canvas.stroke([(-0.75, -0.15), (-0.9, 0.1), (-0.86, 0.35)], 0.05, shade)
    canvas.ellipse((-0.86, 0.4), (0.05, 0.08), _DARK)
    for x in (-0.32, 0.2):
        canvas.limb([(x, 0.2), (x, leg - 0.03)], 0.27, 0.24, shade)
    rise = rng.uniform(-0.62, -0.5)
    back = [(-0.8, 0.0), (-0.6, rise + 0.12), (-0.1, rise), (0.35, rise + 0.1)]
    canvas.blob([*back, (0.45, 0.1), (0.2, 0.42), (-0.3, 0.45), (-0.72, 0.34)], main)
    for x in (-0.58, 0.02):
        canvas.limb([(x, 0.15), (x, leg)], 0.31, 0.27, main)
        for toe in (-0.08, 0.0, 0.08):
            canvas.ellipse((x + toe, leg - 0.03), 0.034, light, outlined=False)
    curl = rng.choice([-1, 1], p=[0.3, 0.7])
    if curl > 0:
        trunk = [(0.62, -0.25), (0.88, 0.05), (0.86, 0.45), (rng.uniform(0.7, 1.0), rng.uniform(0.68, 0.8))]
    else:
        trunk = [(0.62, -0.2), (0.9, 0.02), (1.04, -0.3), (rng.uniform(0.9, 1.05), -0.72)]
    canvas.limb(trunk, 0.34, 0.1, main)
    canvas.ellipse((0.52, -0.3), (0.32, 0.33), main)
    canvas.limb([(0.62, 0.0), (0.78, 0.2), (0.98, 0.18)], 0.1, 0.02, (240, 236, 220))
    ear = rng.uniform(0.9, 1.12)
    outline = np.array([(0.3, -0.55), (0.05, -0.6), (-0.14, -0.32), (-0.04, 0.05), (0.18, 0.22), (0.34, -0.05)])
    canvas.blob(outline * ear + (0.02 * ear, 0), main * 0.88)
    canvas.ellipse((0.64, -0.36), 0.045, _DARK)


def _kite(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a kite: a diamond of four panels with crossed spars and a winding tail with bows."""
    main, second, light = colours
    across, height = rng.uniform(0.45, 0.6), rng.uniform(-0.5, -0.4)
    x0, bottom = rng.uniform(-0.1, 0.1), rng.uniform(0.25, 0.4)
    top, left, right, low = (x0, -0.95), (x0 - across, height), (x0 + across, height), (x0, bottom)
    sway = rng.uniform(0.12, 0.26) * rng.choice([-1, 1])
    tail = [(x0, bottom), (x0 + sway, bottom + 0.18), (x0 - sway, bottom + 0.38), (x0 + sway * 0.8, 0.98)]
    canvas.stroke(tail, 0.045, _DARK)
    for x, y in tail[1:]:
        for side in (-1, 1):
            canvas.polygon([(x, y), (x + side * 0.17, y - 0.09), (x + side * 0.17, y + 0.09)], second)
    middle = (x0, height)
    four = rng.random() < 0.7
    for corner, (panel, other) in zip(
        ((top, left), (right, top), (low, right), (left, low)),
        ((main, main), (second, main), (main, second), (second, second)),
        strict=True,
    ):
        canvas.polygon([middle, *corner], panel if four else other)
    canvas.line([top, low], 0.035, _DARK)
    canvas.line([left, right], 0.035, _DARK)
    if rng.random() < 0.35:
        canvas.ellipse(middle, 0.14, light)


def _pizza(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a pizza from above, whole or a slice: crust, cheese, round toppings, cuts."""
    main, second, light = colours
    if rng.random() < 0.65:
        squash = rng.uniform(0.75, 1.0)
        missing = rng.random() < 0.5
        start = rng.uniform(0, 2 * np.pi)
        turn = np.linspace(0, 2 * np.pi - (0.8 if missing else 0.0), 40) + start
        edge = np.stack([np.cos(turn), squash * np.sin(turn)], axis=1)
        wobble = 1 + 0.015 * rng.standard_normal((40, 1))
        centre = [(0.0, 0.0)] if missing else []
        canvas.polygon(np.concatenate([edge * wobble * 0.92, np.reshape(centre, (-1, 2))]), main)
        canvas.polygon(np.concatenate([edge * wobble * 0.78, np.reshape(centre, (-1, 2))]), light)
        with canvas.inside():
            count = 6 if missing else 8
            for angle in np.arange(count) * (np.ptp(turn) / count) + start:
                canvas.line([(0, 0), (np.cos(angle) * 0.9, squash * np.sin(angle) * 0.9)], 0.03, _DARK)
            for angle in np.arange(9) * (np.ptp(turn) / 9) + start + 0.25:
                reach = rng.choice([0.3, 0.56]) + rng.uniform(-0.06, 0.06)
                spot = (np.cos(angle) * reach, squash * np.sin(angle) * reach)
                canvas.ellipse(spot, (0.12, 0.12 * squash), second)
                canvas.ellipse((spot[0] - 0.03, spot[1] - 0.03), 0.03, light, outlined=False)
    else:
        wide = rng.uniform(0.55, 0.72)
        canvas.polygon([(-wide, -0.6), (wide, -0.6), (rng.uniform(-0.1, 0.1), 0.95)], light)
        for x, y in ((-0.28, -0.3), (0.25, -0.22), (-0.05, 0.05), (0.08, 0.42)):
            canvas.ellipse((x + rng.uniform(-0.06, 0.06), y), rng.uniform(0.12, 0.16), second)
        crust = [(-wide - 0.1, -0.62), (0, -0.92), (wide + 0.1, -0.62), (wide, -0.46), (0, -0.58), (-wide, -0.46)]
        canvas.blob(crust, main)
        for _ in range(3):
            x = rng.uniform(-0.3, 0.3)
            canvas.line([(x, -0.35), (x + 0.08, -0.25)], 0.045, _DARK)


_LETTERS = {  # strokes in a box of 0 to 1
    "S": [[(0.95, 0.12), (0.5, 0.0), (0.05, 0.2), (0.5, 0.5), (0.95, 0.78), (0.5, 1.0), (0.05, 0.88)]],
    "T": [[(0, 0), (1, 0)], [(0.5, 0), (0.5, 1)]],
    "O": [[(0.5, 0), (0.95, 0.3), (0.95, 0.7), (0.5, 1), (0.05, 0.7), (0.05, 0.3), (0.5, 0)]],
    "P": [[(0.1, 0), (0.1, 1)], [(0.1, 0), (0.8, 0.05), (0.85, 0.45), (0.1, 0.52)]],
}


def _stop_sign(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a stop sign: an octagon with a border and four letters, on a post or without."""
    main, second, _ = colours
    post = rng.random() < 0.6
    radius, y0 = (0.68, -0.28) if post else (0.92, 0.0)
    if post:
        canvas.rectangle(-0.07, 0.2, 0.07, 1.0, second)
    turn = np.arange(8) * np.pi / 4 + np.pi / 8
    octagon = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    face = main * (0.75 if main.mean() > 150 else 1.0)
    canvas.polygon(octagon * radius + (0, y0), (245, 245, 245))
    canvas.polygon(octagon * radius * 0.88 + (0, y0), face, outlined=False)
    width, height = radius * 0.3, radius * rng.uniform(0.48, 0.62)
    for place, letter in enumerate("STOP"):
        corner = np.array([(place - 2) * width * 1.22 + width * 0.11, y0 - height / 2])
        for line in _LETTERS[letter]:
            points = np.array(line) * (width, height) + corner
            canvas.stroke(points, radius * 0.085, (248, 248, 248), smooth=len(line) > 4)


def _toilet(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a toilet: cistern, seat with its hole, bowl on a pedestal; from the front or the side."""
    main, second, light = colours
    if rng.random() < 0.5:
        wide = rng.uniform(0.48, 0.58)
        canvas.rectangle(-wide, -0.85, wide, -0.25, main)
        canvas.rectangle(-wide - 0.05, -0.95, wide + 0.05, -0.8, light)
        canvas.rectangle(-wide + 0.08, -0.7, -wide + 0.26, -0.63, _DARK)
        if rng.random() < 0.5:  # raised lid
            canvas.ellipse((0, -0.22), (0.44, 0.42), second)
        canvas.blob("-0.5,0.1 0.5,0.1 0.42,0.45 0.25,0.62 0.3,0.92 -0.3,0.92 -0.25,0.62 -0.42,0.45", main)
        canvas.ellipse((0, 0.1), (0.55, 0.3), light)
        canvas.ellipse((0, 0.1), (0.37, 0.18), _DARK)
        canvas.ellipse((0, 0.16), (0.26, 0.09), (150, 175, 190), outlined=False)
    else:
        tall = rng.uniform(-0.95, -0.8)
        canvas.rectangle(-0.82, tall + 0.08, -0.38, 0.12, main)
        canvas.rectangle(-0.87, tall, -0.33, tall + 0.14, light)
        canvas.rectangle(-0.5, tall + 0.22, -0.4, tall + 0.3, _DARK)
        lid = rng.uniform(-0.95, -0.7)
        if rng.random() < 0.6:
            canvas.limb([(-0.32, 0.0), (-0.15, lid)], 0.1, 0.09, second)
        bowl = [(-0.8, 0.1), (0.85, 0.08), (0.74, 0.36), (0.35, 0.56), (0.1, 0.66), (0.22, 0.94)]
        canvas.polygon([*bowl, (-0.6, 0.94), (-0.5, 0.6)], main)
        canvas.limb([(-0.42, 0.06), (0.92, 0.04)], 0.13, 0.13, light)


def _truck(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a truck from the side: cargo box or tank or open bed, cab with a window, wheels with hubs."""
    main, second, light = colours
    kind = rng.choice(["box", "tank", "bed"], p=[0.6, 0.2, 0.2])
    cab_top = rng.uniform(-0.42, -0.3)
    canvas.rectangle(-0.95, 0.3, 0.9, 0.42, _DARK)
    if kind == "box":
        roof = rng.uniform(-0.72, -0.5)
        canvas.rectangle(-0.97, roof, 0.35, 0.32, main)
        for x in np.linspace(-0.75, 0.15, rng.integers(2, 5)):
            canvas.line([(x, roof + 0.06), (x, 0.26)], 0.03, main * 0.7)
    elif kind == "tank":
        canvas.ellipse((-0.3, -0.08), (0.66, 0.36), main)
        canvas.line([(-0.9, -0.08), (0.3, -0.08)], 0.08, light)
    else:
        canvas.polygon("-0.97,-0.18 0.3,-0.18 0.3,0.32 -0.85,0.32", main)
        canvas.blob("-0.85,-0.16 -0.5,-0.45 0.0,-0.4 0.25,-0.16", light)
    hood = rng.uniform(-0.02, 0.1)
    cab = [(0.38, cab_top), (0.68, cab_top), (0.82, hood), (0.98, hood + 0.06), (0.98, 0.4), (0.38, 0.4)]
    canvas.polygon(cab, second)
    window = [(0.46, cab_top + 0.09), (0.64, cab_top + 0.09), (0.74, hood - 0.02), (0.46, hood - 0.02)]
    canvas.polygon(window, (185, 215, 235))
    canvas.rectangle(0.9, hood + 0.14, 0.99, hood + 0.24, (250, 235, 150))
    wheels = [-0.68, -0.3, 0.66] if rng.random() < 0.55 else [-0.58, 0.66]
    radius = rng.uniform(0.17, 0.22)
    for x in wheels:
        canvas.ellipse((x, 0.46), radius, _DARK)
        canvas.ellipse((x, 0.46), radius * 0.45, (200, 200, 205))


def _zebra(canvas: Canvas, rng: np.random.Generator, colours) -> None:
    """Draw a zebra from the side: a horse's build with stripes across body, neck and legs, and a mane."""
    main, second, _ = colours
    base = 0.45 * main + 0.55 * 245
    stripe = second * min(1.0, 60 / max(20.0, second.mean()))
    leg, grazing = rng.uniform(0.82, 0.95), rng.random() < 0.25
    stride = rng.uniform(-0.12, 0.12)
    canvas.limb([(-0.62, -0.1), (-0.8, 0.1), (-0.78, 0.4)], 0.07, 0.05, base)
    canvas.ellipse((-0.78, 0.45), (0.06, 0.12), stripe)
    for x, bend in ((-0.42, stride), (0.3, -stride)):
        canvas.limb([(x, 0.1), (x - 0.04 + bend, 0.5), (x + bend, leg - 0.03)], 0.2, 0.09, base * 0.85)
    canvas.blob("-0.68,-0.08 -0.4,-0.24 0.05,-0.18 0.45,-0.24 0.52,0.05 0.2,0.3 -0.3,0.28 -0.62,0.2", base)
    for x, bend in ((-0.55, -stride), (0.4, stride)):
        canvas.limb([(x, 0.05), (x - 0.05 + bend, 0.48), (x + bend, leg)], 0.24, 0.1, base)
    if grazing:
        neck, nose = [(0.42, -0.08), (0.7, 0.1), (0.8, 0.4)], (0.98, 0.76)
    else:
        neck, nose = [(0.4, -0.05), (0.55, -0.4), (0.6, -0.72)], (0.98, rng.uniform(-0.62, -0.48))
    canvas.limb(neck, 0.42, 0.26, base)
    poll = np.array(neck[-1])
    canvas.limb([tuple(poll - (0.06, 0.02)), nose], 0.3, 0.17, base)
    canvas.polygon([poll + (-0.12, -0.08), poll + (-0.06, -0.26), poll + (0.03, -0.1)], base)
    with canvas.inside():
        gap = rng.uniform(0.12, 0.16)
        for x in np.arange(-0.68, 0.5, gap):
            lean = rng.uniform(-0.03, 0.03)
            canvas.stroke([(x + 0.05, -0.3), (x + lean, 0.0), (x - 0.05 + lean, 0.33)], gap * 0.4, stripe)
        for y in np.arange(0.4, leg - 0.05, gap * 0.8):
            canvas.line([(-0.9, y), (0.65, y + 0.03)], gap * 0.3, stripe)
        for point in _along(neck)[2:]:
            canvas.line([point + (-0.25, -0.06), point + (0.25, 0.06)], gap * 0.38, stripe)
        for share in (0.3, 0.5):
            middle = poll * (1 - share) + np.array(nose) * share
            canvas.line([middle + (0.08, -0.16), middle + (-0.06, 0.16)], gap * 0.32, stripe)
        canvas.ellipse(nose, (0.09, 0.1), _DARK)
        canvas.ellipse(poll + (0.12, 0.02), 0.035, _DARK)
    for point in _along(neck)[1:]:
        canvas.line([point + (-0.17, 0.0), point + (-0.28, -0.05)], 0.06, stripe)


def _along(points, count: int = 7) -> np.ndarray:
    """Return ``count`` points evenly along a polyline, (count, 2)."""
    points = np.asarray(points, float)
    steps = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    places = np.linspace(0, steps[-1], count)
    return np.stack([np.interp(places, steps, points[:, axis]) for axis in (0, 1)], axis=1)


_OBJECTS = (_backpack, _bird, _dog, _elephant, _kite, _pizza, _stop_sign, _toilet, _truck, _zebra)
OBJECTS = {draw.__name__.removeprefix("_"): draw for draw in _OBJECTS}


def draw_object(
    name: str, rng: np.random.Generator, size: int = 208, finished: bool = True
) -> tuple[np.ndarray | None, np.ndarray]:
    """Draw one of ``OBJECTS`` on a plain, uneven ground.

    Returns the picture, (size, size, 3) uint8, and where the object is, (size, size) bool. Unless ``finished``, the
    picture is not lit and None is returned for it.
    """
    symmetric = name in ("backpack", "pizza")
    tilt = rng.uniform(-0.6, 0.6) if name == "kite" else rng.uniform(-0.16, 0.16)
    if name == "pizza":
        tilt = rng.uniform(-np.pi, np.pi)
    mirror = 1.0 if name == "stop_sign" or symmetric else rng.choice([-1.0, 1.0])
    stretch = np.diag([mirror * rng.uniform(0.88, 1.08), rng.uniform(0.88, 1.08)])
    shear = np.array([[1.0, rng.uniform(-0.1, 0.1)], [0.0, 1.0]])
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    pose = np.concatenate([0.44 * turn @ shear @ stretch, [[0.5], [0.5]]], axis=1)
    ground = palette(rng)[0]
    canvas = Canvas(size, ground, pose, outline=rng.uniform(0.3, 0.7))
    OBJECTS[name](canvas, rng, palette(rng))
    if not finished:
        return None, canvas.silhouette()
    image = canvas.picture() * brightness_field(size, rng)[..., None]
    image += rng.standard_normal((size, size, 1), dtype=np.float32) * rng.uniform(2, 7)
    return np.clip(image, 0, 255).astype(np.uint8), canvas.silhouette()
