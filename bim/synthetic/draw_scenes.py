"""Synthetic substitutes for BIM's ten MiniPlaces scenes, which differ in texture and layout.

Coordinates run from 0 to 1, x to the right and y down. Each function draws on a canvas with random variation.
Brightness, tint and grain of the picture vary for all scenes alike.
"""

from __future__ import annotations

import numpy as np

from attribution_benchmarks.drawing.canvas import Canvas


def _shade(rng, colour, spread: float = 18.0) -> np.ndarray:
    """Return a colour with random changes of brightness and tint."""
    return np.clip(np.asarray(colour, float) + rng.normal(0, spread) + rng.normal(0, spread / 3, 3), 5, 250)


def _sky(canvas: Canvas, rng, bottom: float) -> None:
    """Fill the upper part with a sky that pales towards the horizon, and a few clouds."""
    high = _shade(rng, (95, 150, 215))
    low = 0.35 * high + 0.65 * np.array([235, 240, 245])
    for step in range(10):
        y = bottom * step / 10
        canvas.rectangle(0, y, 1, bottom, high + (low - high) * step / 9)
    for _ in range(rng.integers(0, 4)):
        x, y = rng.uniform(0, 1), rng.uniform(0.05, max(0.1, bottom * 0.7))
        for shift in (-0.08, 0.0, 0.09):
            canvas.ellipse((x + shift, y + abs(shift) * 0.2), (0.09, 0.03), low * 0.3 + 0.7 * 250)


def _between(a, b, share: float) -> tuple[float, float]:
    """Return the point between a and b at the distance ``share`` from a."""
    return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share


def _bamboo_forest(canvas: Canvas, rng) -> None:
    """Draw dense upright stalks with nodes, thin ones far and thick ones near, and leaves."""
    far = _shade(rng, (70, 110, 50))
    canvas.rectangle(0, 0, 1, 1, far)
    canvas.rectangle(0, rng.uniform(0.82, 0.92), 1, 1, _shade(rng, (105, 90, 60)))
    for depth, (count, width) in enumerate(((16, 0.022), (11, 0.036), (7, 0.06))):
        colour = far + (depth + 1) * np.array([26, 32, 12])
        for x in (np.arange(count) + rng.uniform(0, 1, count)) / count:
            lean = rng.uniform(-0.05, 0.05)
            thick = width * rng.uniform(0.8, 1.25)
            own = _shade(rng, colour, 12)
            foot = rng.uniform(0.9, 1.05)
            canvas.line([(x, -0.05), (x + lean, foot)], thick, own * 0.7)
            canvas.line([(x - thick * 0.12, -0.05), (x - thick * 0.12 + lean, foot)], thick * 0.62, own)
            canvas.line([(x - thick * 0.2, -0.05), (x - thick * 0.2 + lean, foot)], thick * 0.18, own * 1.25)
            for y in np.arange(rng.uniform(0, 0.16), foot, rng.uniform(0.14, 0.2)):
                at = x + lean * (y + 0.05) / (foot + 0.05)
                canvas.line([(at - thick * 0.55, y), (at + thick * 0.55, y)], 0.012, own * 0.45)
    for _ in range(rng.integers(18, 32)):
        x, y, turn = rng.uniform(0, 1), rng.uniform(0, 0.45) ** 1.3, rng.uniform(0.2, 2.9)
        tip = (x + 0.11 * np.cos(turn), y + 0.11 * np.sin(turn))
        side = np.array([-np.sin(turn), np.cos(turn)]) * 0.014
        middle = np.array(_between((x, y), tip, 0.4))
        canvas.polygon([(x, y), middle + side, tip, middle - side], _shade(rng, (110, 160, 60), 22))


def _bedroom(canvas: Canvas, rng) -> None:
    """Draw a room with a bed against the wall: headboard, pillows, blanket, lamp, window or picture."""
    wall = _shade(rng, rng.choice([(205, 190, 165), (170, 190, 205), (205, 175, 175), (190, 200, 170)]))
    floor = _shade(rng, (150, 110, 75))
    skirting = rng.uniform(0.56, 0.64)
    canvas.rectangle(0, 0, 1, skirting, wall)
    canvas.rectangle(0, skirting, 1, 1, floor)
    for x in np.linspace(-0.6, 1.6, 12):
        canvas.line([(0.5 + (x - 0.5) * 0.6, skirting), (x, 1)], 0.006, floor * 0.75)
    canvas.rectangle(0, skirting - 0.025, 1, skirting, wall * 0.6 + 90)
    middle = rng.uniform(0.4, 0.6)
    window = middle + rng.choice([-0.36, 0.36])
    canvas.rectangle(window - 0.14, 0.06, window + 0.14, 0.42, (240, 240, 235))
    canvas.rectangle(window - 0.12, 0.08, window + 0.12, 0.4, _shade(rng, (150, 195, 235)))
    canvas.line([(window, 0.07), (window, 0.41)], 0.014, (240, 240, 235))
    canvas.line([(window - 0.13, 0.24), (window + 0.13, 0.24)], 0.014, (240, 240, 235))
    curtain = _shade(rng, (150, 90, 90), 40)
    for side in (-1, 1):
        corners = ((0.11, 0.03), (0.21, 0.03), (0.19, 0.48), (0.15, 0.48))
        canvas.polygon([(window + side * x, y) for x, y in corners], curtain)
    canvas.rectangle(middle - 0.13, 0.1, middle + 0.13, 0.26, wall * 0.5)
    canvas.rectangle(middle - 0.11, 0.12, middle + 0.11, 0.24, _shade(rng, (160, 150, 120), 45))
    wood = _shade(rng, (110, 70, 45))
    cloth = _shade(rng, rng.choice([(90, 110, 170), (170, 80, 90), (120, 150, 110), (190, 170, 120)]))
    outline = ((-0.32, 0.62), (-0.31, 0.38), (0, 0.33), (0.31, 0.38), (0.32, 0.62))
    canvas.blob([(middle + x, y) for x, y in outline], wood)
    for side in (-1, 1):
        table = middle + side * 0.42
        canvas.rectangle(table - 0.08, 0.56, table + 0.08, 0.74, wood * 0.85)
        canvas.line([(table, 0.56), (table, 0.47)], 0.015, (60, 50, 45))
        canvas.trapezoid(table, 0.38, 0.04, 0.48, 0.075, (245, 225, 160))
    canvas.trapezoid(middle, 0.56, 0.31, 0.9, 0.42, (238, 236, 230))
    for side in (-1, 1):
        pillow = ((0.04, 0.5), (0.26, 0.49), (0.28, 0.6), (0.03, 0.61))
        canvas.blob([(middle + side * x, y) for x, y in pillow], (250, 248, 244))
        canvas.line([(middle + side * 0.05, 0.61), (middle + side * 0.27, 0.6)], 0.008, (190, 188, 185))
    canvas.trapezoid(middle, 0.64, 0.335, 0.95, 0.43, cloth)
    canvas.trapezoid(middle, 0.64, 0.335, 0.69, 0.35, cloth * 0.5 + 125)
    for share in np.arange(1, rng.integers(4, 7)):
        x = (share - 2.5) * 0.16
        canvas.line([(middle + x * 0.85, 0.7), (middle + x * 1.1, 0.94)], 0.014, cloth * 0.8)


def _bowling_alley(canvas: Canvas, rng) -> None:
    """Draw lanes of boards running to racks of pins under a bright panel, with gutters and arrows."""
    canvas.rectangle(0, 0, 1, 1, _shade(rng, (60, 50, 70)))
    far = rng.uniform(0.36, 0.44)
    vanish = (rng.uniform(0.42, 0.58), far - 0.12)
    for y in (0.03, 0.1, 0.16):
        for x in np.linspace(-0.2, 1.2, 8):
            canvas.ellipse(_between((x, y), vanish, 0.3), (0.05 - y * 0.15, 0.012), (250, 240, 205))
    panel = _shade(rng, rng.choice([(200, 60, 70), (60, 90, 190), (60, 160, 120), (220, 160, 60)]))
    canvas.rectangle(0, far - 0.2, 1, far - 0.09, panel)
    for x in np.linspace(0.08, 0.92, 7):
        canvas.ellipse((x, far - 0.145), 0.022, _shade(rng, (240, 235, 220)))
    canvas.rectangle(0, far - 0.09, 1, far, (25, 22, 30))
    wood = _shade(rng, (205, 160, 100))
    lane = rng.uniform(0.62, 0.8)
    for number in range(-3, 4):
        near = [vanish[0] + lane * (number - 0.5), vanish[0] + lane * (number + 0.5)]
        edges = [_between(vanish, (x, 1.0), (far - vanish[1]) / (1 - vanish[1])) for x in near]
        corners = [edges[0], edges[1], (near[1], 1.0), (near[0], 1.0)]
        canvas.polygon(corners, wood * 0.45)
        inner = [_between(corners[0], corners[1], 0.12), _between(corners[0], corners[1], 0.88)]
        below = [_between(corners[3], corners[2], 0.12), _between(corners[3], corners[2], 0.88)]
        canvas.polygon([inner[0], inner[1], below[1], below[0]], wood)
        for share in np.linspace(0.1, 0.9, 8):
            canvas.line([_between(inner[0], inner[1], share), _between(below[0], below[1], share)], 0.006, wood * 0.82)
        for share in np.linspace(0.2, 0.8, 5):
            reach = 0.3 + 0.12 * (0.5 - abs(share - 0.5)) * -2
            tip = _between(_between(inner[0], inner[1], share), _between(below[0], below[1], share), reach + 0.1)
            canvas.polygon([tip, (tip[0] - 0.012, tip[1] + 0.035), (tip[0] + 0.012, tip[1] + 0.035)], wood * 0.35)
        pin = (inner[1][0] - inner[0][0]) / 5
        for row in range(3):
            for place in range(row + 2):
                x = (inner[0][0] + inner[1][0]) / 2 + (place - (row + 1) / 2) * pin * 1.05
                y = far - 0.012 - (2 - row) * 0.004
                canvas.ellipse((x, y - 0.022), (pin * 0.36, 0.026), (248, 246, 240))
                canvas.ellipse((x, y - 0.056), (pin * 0.2, 0.013), (248, 246, 240))
                canvas.line([(x - pin * 0.2, y - 0.042), (x + pin * 0.2, y - 0.042)], 0.008, (210, 40, 40))


def _bus_interior(canvas: Canvas, rng) -> None:
    """Draw the aisle of a bus: rows of high seats left and right, side windows, ceiling rails with straps."""
    vanish = np.array([rng.uniform(0.44, 0.56), rng.uniform(0.36, 0.44)])
    canvas.rectangle(0, 0, 1, 1, _shade(rng, (190, 190, 185)))
    ceiling = [(-0.2, -0.1), (1.2, -0.1), vanish + (0.08, -0.1), vanish + (-0.08, -0.1)]
    canvas.polygon(ceiling, _shade(rng, (225, 222, 212)))
    canvas.polygon([(0.1, 1.05), (0.9, 1.05), vanish + (0.07, 0.16), vanish + (-0.07, 0.16)], _shade(rng, (80, 80, 88)))
    canvas.rectangle(*(vanish + (-0.08, -0.1)), *(vanish + (0.08, 0.16)), _shade(rng, (120, 125, 130)))
    canvas.rectangle(*(vanish + (-0.06, -0.07)), *(vanish + (0.06, 0.02)), (185, 215, 235))
    glass = _shade(rng, (165, 205, 230))
    seat = _shade(rng, rng.choice([(50, 80, 160), (160, 60, 60), (50, 130, 110), (110, 70, 140)]))
    for side in (-1, 1):
        wall = np.array([0.5 + side * 0.62, 0.0])
        for near, far in ((0.0, 0.26), (0.32, 0.52), (0.57, 0.7), (0.74, 0.83)):
            window = []
            for depth, height in ((near, 0.1), (far, 0.1), (far, 0.52), (near, 0.52)):
                window.append(
                    np.array([wall[0], height]) * (1 - depth) + (vanish + (side * 0.06, (height - 0.35) * 0.2)) * depth
                )
            canvas.polygon(window, glass)
            low = [window[3] * 0.75 + window[0] * 0.25, window[2] * 0.75 + window[1] * 0.25, window[2], window[3]]
            canvas.polygon(low, _shade(rng, (110, 140, 100), 25))
        for depth in (0.78, 0.66, 0.5, 0.3, 0.02):
            scale = 1 - depth
            foot = np.array([0.5 + side * 0.46, 1.02]) * scale + (vanish + (side * 0.02, 0.12)) * depth
            wide, tall = 0.19 * scale, 0.46 * scale
            x, y = foot
            canvas.rectangle(x - wide, y - tall * 0.45, x + wide, y, seat * 0.6)
            low, top, narrow = y - tall * 0.3, y - tall, wide * 0.85
            back = [(x - wide, low), (x - narrow, top), (x + narrow, top), (x + wide, low)]
            canvas.blob(back, seat * (0.75 + 0.3 * scale))
            half = wide * 0.6
            canvas.trapezoid(x, y - tall * 0.75, half, y - tall * 0.96, half, seat * 0.4 + 120, smooth=True)
        rail = [np.array([0.5 + side * 0.22, -0.02]), vanish + (side * 0.035, -0.075)]
        canvas.line(rail, 0.016, (240, 200, 60))
        for share in (0.15, 0.42, 0.62, 0.76):
            hang = rail[0] * (1 - share) + rail[1] * share
            scale = 1 - share
            canvas.line([hang, hang + (0, 0.1 * scale)], 0.012 * scale + 0.004, (60, 60, 65))
            canvas.ellipse(hang + (0, 0.13 * scale), 0.035 * scale, (60, 60, 65))
            canvas.ellipse(hang + (0, 0.13 * scale), 0.02 * scale, (215, 215, 210))
    pole = 0.5 + rng.choice([-0.2, 0.2])
    canvas.line([(pole, 0.0), (pole, 0.95)], 0.02, (240, 200, 60))


def _cockpit(canvas: Canvas, rng) -> None:
    """Draw an aeroplane's cockpit: windscreen panes over a dark panel of round instruments, levers, yokes."""
    sill = rng.uniform(0.36, 0.46)
    _sky(canvas, rng, sill + 0.02)
    if rng.random() < 0.5:
        canvas.rectangle(0, sill - 0.1, 1, sill + 0.05, _shade(rng, (110, 130, 90)))
    frame = _shade(rng, (62, 64, 70), 12)
    canvas.polygon("0,0 1,0 1,0.07 0.5,0.03 0,0.07", frame)
    lean = rng.uniform(0.05, 0.1)
    for x, shift in ((0.5, 0.0), (0.17, -lean), (0.83, lean)):
        canvas.line([(x + shift * -0.4, -0.02), (x + shift, sill + 0.05)], 0.045, frame)
    canvas.polygon(
        [(-0.05, sill + 0.06), (0.5, sill - 0.05), (1.05, sill + 0.06), (1.05, 1.05), (-0.05, 1.05)], frame * 0.85
    )
    canvas.polygon([(0.02, sill + 0.1), (0.5, sill + 0.0), (0.98, sill + 0.1), (0.98, 0.86), (0.02, 0.86)], frame * 1.3)
    _instruments(canvas, rng, sill)
    canvas.rectangle(0.43, sill + 0.06, 0.57, sill + 0.3, (30, 34, 38))
    for y in np.arange(sill + 0.09, sill + 0.28, 0.04):
        for x in (0.455, 0.485, 0.515, 0.545):
            light = rng.choice([(250, 190, 60), (230, 70, 60), (110, 230, 120), (200, 200, 200)])
            canvas.rectangle(x - 0.01, y - 0.012, x + 0.01, y + 0.012, light)
    canvas.polygon("0.4,0.86 0.6,0.86 0.66,1.05 0.34,1.05", frame * 1.1)
    for x in (0.44, 0.5, 0.56):
        canvas.line([(x, 1.0), (x, 0.86)], 0.014, (190, 190, 190))
        canvas.ellipse((x, 0.85), 0.022, rng.choice([(200, 60, 50), (235, 235, 235), (60, 90, 190)]))
    for x in (0.2, 0.8):
        canvas.line([(x, 1.05), (x, 0.88)], 0.04, (15, 15, 18))
        yoke = [(x - 0.13, 0.74), (x - 0.12, 0.87), (x, 0.9), (x + 0.12, 0.87), (x + 0.13, 0.74)]
        canvas.stroke(yoke, 0.036, (15, 15, 18))


def _instruments(canvas: Canvas, rng: np.random.Generator, sill: float) -> None:
    """Draw two or three rows of instruments, with room for a screen in the middle."""
    rows = rng.integers(2, 4)
    radius = 0.062 if rows == 2 else 0.05
    for row in range(rows):
        for column in range(7):
            if column == 3 and row < 2:
                continue
            y = sill + 0.15 + row * (radius * 2.25) + 0.07 * abs(column - 3) / 3 - 0.03
            _instrument(canvas, rng, 0.08 + column * 0.14, y, radius)


def _instrument(canvas: Canvas, rng, x: float, y: float, radius: float) -> None:
    """Draw a screen with a curve, or a round dial with a pointer, some of them an artificial horizon."""
    reach = radius * 0.7
    if rng.random() < 0.12:
        canvas.rectangle(x - radius, y - radius, x + radius, y + radius, (20, 60, 50))
        canvas.stroke([(x - reach, y + 0.02), (x, y - 0.02), (x + reach, y + 0.01)], 0.01, (120, 250, 160))
        return
    canvas.ellipse((x, y), radius, (215, 215, 210))
    canvas.ellipse((x, y), radius * 0.84, (18, 18, 22))
    if rng.random() < 0.2:
        canvas.trapezoid(x, y, reach, y - radius * 0.55, radius * 0.5, (90, 160, 225))
    turn = rng.uniform(0, 2 * np.pi)
    canvas.line([(x, y), (x + reach * np.cos(turn), y + reach * np.sin(turn))], 0.013, (250, 245, 235))


def _corn_field(canvas: Canvas, rng) -> None:
    """Draw rows of tall leafy plants with cobs and tassels, close by and shrinking towards the horizon."""
    horizon = rng.uniform(0.22, 0.36)
    _sky(canvas, rng, horizon + 0.02)
    canvas.rectangle(0, horizon, 1, 1, _shade(rng, (95, 80, 45)))
    if rng.random() < 0.5:
        hills = ((-0.1, 0.03), (0.2, -0.05), (0.6, -0.02), (1.1, -0.06), (1.1, 0.05))
        canvas.blob([(x, horizon + y) for x, y in hills], _shade(rng, (60, 90, 60)))
    green = _shade(rng, rng.choice([(85, 140, 45), (130, 150, 50), (165, 150, 70)]))
    for depth in (0.05, 0.13, 0.26, 0.45, 0.75):
        foot = horizon + depth * (1.12 - horizon)
        tall = 0.1 + depth * 0.5
        count = int(5 + 1.6 / (depth + 0.06))
        for x in (np.arange(count) + rng.uniform(0.1, 0.9, count)) / count * 1.1 - 0.05:
            own = _shade(rng, green * (0.7 + 0.4 * depth), 10)
            top = foot - tall * rng.uniform(0.85, 1.1)
            canvas.line([(x, foot), (x, top)], 0.004 + 0.018 * depth, own * 0.8)
            for place in (0.2, 0.4, 0.58, 0.76):
                side = rng.choice([-1, 1])
                y = foot + (top - foot) * place
                reach = tall * rng.uniform(0.24, 0.34)
                leaf = [(x, y), (x + side * reach * 0.5, y - reach * 0.5), (x + side * reach, y - reach * 0.05)]
                canvas.polygon([*leaf, (x + side * reach * 0.5, y - reach * 0.3)], _shade(rng, own, 9))
                opposite = ((0, 0), (0.4, 0.6), (0.8, 0.3), (0.4, 0.42))
                canvas.polygon([(x - side * reach * dx, y - reach * dy) for dx, dy in opposite], own * 1.1)
            for turn in (-0.5, 0.0, 0.5):
                tip = (x + tall * 0.14 * np.sin(turn), top - tall * 0.14)
                canvas.line([(x, top), tip], 0.004 + 0.006 * depth, (225, 195, 110))
            if depth > 0.2 and rng.random() < 0.7:
                cob = (x + 0.04 * depth, foot - tall * 0.5), (0.022 * depth + 0.004, 0.06 * depth)
                canvas.ellipse(*cob, (235, 205, 70), angle=0.3)


def _laundromat(canvas: Canvas, rng) -> None:
    """Draw rows of washing machines with round doors and control strips over a tiled floor."""
    canvas.rectangle(0, 0, 1, 1, _shade(rng, (205, 215, 215)))
    floor = rng.uniform(0.84, 0.9)
    two = rng.random() < 0.55
    columns = rng.integers(4, 6)
    wide = 1.1 / columns
    shift = rng.uniform(-0.1, 0.0)
    body = _shade(rng, rng.choice([(232, 232, 228), (200, 205, 210), (150, 185, 200)]))
    strip = _shade(rng, (90, 110, 150), 35)
    tops = [0.08, 0.47] if two else [0.3]
    canvas.rectangle(0, tops[0] - 0.045, 1, tops[0], strip * 0.6)
    if not two:
        for x in np.arange(shift, 1, 0.3):
            canvas.rectangle(x + 0.04, 0.06, x + 0.22, 0.2, _shade(rng, (235, 225, 190), 25))
            for y in (0.09, 0.125, 0.16):
                canvas.line([(x + 0.06, y), (x + 0.2, y)], 0.008, (110, 110, 110))
    for top in tops:
        bottom = top + 0.38 if two else floor + 0.01
        for number in range(columns + 1):
            _washing_machine(canvas, rng, shift + number * wide, top, bottom, wide, body, strip)
    _tiles(canvas, floor, _shade(rng, (110, 120, 125), 30))


def _tiles(canvas: Canvas, floor: float, tile: np.ndarray) -> None:
    """Draw a floor of light and dark tiles."""
    canvas.rectangle(0, floor, 1, 1, (235, 235, 230))
    for row in range(3):
        y0, y1 = floor + (1 - floor) * np.array([row, row + 1]) / 3
        for column in range(-1, 12):
            if (row + column) % 2:
                canvas.rectangle(column * 0.1, y0, column * 0.1 + 0.1, y1, tile)


def _washing_machine(canvas: Canvas, rng, x: float, top: float, bottom: float, wide: float, body, strip) -> None:
    """Draw a machine with a control strip and a round door, half of them with laundry behind it."""
    canvas.rectangle(x + 0.008, top, x + wide - 0.008, bottom, body * 0.75)
    canvas.rectangle(x + 0.014, top + 0.006, x + wide - 0.014, bottom - 0.006, body)
    canvas.rectangle(x + 0.02, top + 0.015, x + wide - 0.02, top + 0.075, strip)
    canvas.ellipse((x + wide * 0.75, top + 0.045), 0.018, (245, 245, 245))
    canvas.rectangle(x + wide * 0.15, top + 0.032, x + wide * 0.45, top + 0.058, (30, 40, 45))
    x, y, radius = x + wide / 2, (top + 0.08 + bottom) / 2, min(wide * 0.36, 0.13)
    canvas.ellipse((x, y), radius, (170, 175, 180))
    canvas.ellipse((x, y), radius * 0.86, (95, 100, 108))
    canvas.ellipse((x, y), radius * 0.7, _shade(rng, (55, 70, 85), 10))
    if rng.random() < 0.5:
        laundry = _shade(rng, (170, 110, 120), 45)
        canvas.ellipse((x, y + radius * 0.3), (radius * 0.5, radius * 0.32), laundry)
    reflection = [(x - radius * 0.4, y - radius * 0.3), (x - radius * 0.05, y - radius * 0.5)]
    canvas.line(reflection, 0.012, (200, 220, 230))


def _runway(canvas: Canvas, rng) -> None:
    """Draw an airport's runway from the approach: asphalt to the horizon, piano keys, dashes, edge lights."""
    horizon = rng.uniform(0.28, 0.42)
    _sky(canvas, rng, horizon + 0.02)
    canvas.rectangle(0, horizon, 1, 1, _shade(rng, rng.choice([(110, 140, 70), (160, 145, 95), (90, 120, 80)])))
    for x in rng.uniform(0, 1, 3):
        tall, wide = rng.uniform(0.015, 0.05), rng.uniform(0.06, 0.2)
        canvas.rectangle(x, horizon - tall, x + wide, horizon + 0.006, _shade(rng, (150, 150, 155)))
    vanish = (rng.uniform(0.4, 0.6), horizon)
    wide = rng.uniform(0.62, 0.82)
    left, right = (vanish[0] - wide, 1.05), (vanish[0] + wide, 1.05)
    end = 0.03
    tarmac = _shade(rng, (88, 88, 92), 12)

    def at(across: float, depth: float):
        """Return the point ``across`` the runway (0 to 1) at ``depth`` (0 near, 1 at the horizon)."""
        near = _between(left, right, across)
        return _between(near, (vanish[0] + (across - 0.5) * end, vanish[1]), depth)

    def strip(left: float, right: float, near: float, far: float, colour=(240, 240, 235)):
        canvas.polygon([at(left, near), at(left, far), at(right, far), at(right, near)], colour)

    strip(0, 1, 0, 1, tarmac)
    for edge in (0.04, 0.93):
        strip(edge, edge + 0.03, 0, 1)
    for across in np.linspace(0.12, 0.84, 8):
        if abs(across + 0.02 - 0.5) > 0.05:
            strip(across, across + 0.05, 0.1, 0.34)
    start = 0.42
    while start < 0.96:
        stop = start + (1 - start) * 0.22
        strip(0.485, 0.515, start, stop)
        start = stop + (1 - stop) * 0.2
    for across in (0.25, 0.68):
        strip(across, across + 0.07, 0.56, 0.66)
    for depth in 1 - 0.8 ** np.arange(1, 14):
        for across in (-0.04, 1.04):
            canvas.ellipse(at(across, depth), 0.014 * (1 - depth) + 0.004, (255, 225, 120))


def _ski_slope(canvas: Canvas, rng) -> None:
    """Draw a white slope with fir trees, far peaks, a chair lift and curved tracks."""
    _sky(canvas, rng, 0.6)
    peaks = _shade(rng, (130, 145, 170))
    for x in rng.uniform(0, 1, 3):
        tall, wide = rng.uniform(0.12, 0.25), rng.uniform(0.2, 0.35)
        canvas.polygon([(x - wide, 0.5), (x, 0.42 - tall), (x + wide, 0.5)], peaks)
        half, low = wide * 0.3, 0.42 - tall * 0.66
        cap = [(x - half, low), (x, 0.42 - tall), (x + half, low), (x + 0.02, 0.45 - tall * 0.62)]
        canvas.polygon(cap, (245, 247, 250))
    mirror = rng.random() < 0.5
    y0, y1 = rng.uniform(0.26, 0.34), rng.uniform(0.48, 0.6)

    def flip(points):
        return [(1 - x, y) if mirror else (x, y) for x, y in points]

    snow = _shade(rng, (236, 240, 248), 6)
    canvas.polygon(flip([(-0.05, y0), (0.4, (y0 + y1) / 2 - 0.03), (1.05, y1), (1.05, 1.05), (-0.05, 1.05)]), snow)
    canvas.polygon(flip([(-0.05, 0.66), (0.5, 0.78), (1.05, 0.82), (1.05, 1.05), (-0.05, 1.05)]), snow * 0.95)
    for _ in range(rng.integers(3, 6)):
        x, turn = rng.uniform(0, 0.9), rng.uniform(0.03, 0.07)
        track = [(x + turn * np.sin(step * 1.7), 0.5 + 0.08 * step + 0.05 * x) for step in range(7)]
        canvas.stroke(flip(track), 0.008, snow * 0.8)
    for _ in range(rng.integers(9, 15)):
        x = rng.choice([rng.uniform(-0.05, 0.32), rng.uniform(0.7, 1.05)])
        y = y0 + (y1 - y0) * x + rng.uniform(0.02, 0.5)
        tall = 0.09 + 0.22 * (y - y0)
        fir = _shade(rng, (35, 75, 50), 10)
        (at, _), *_ = flip([(x, y)])
        canvas.rectangle(at - tall * 0.05, y - 0.02, at + tall * 0.05, y + tall * 0.08, (75, 55, 40))
        for share in (0.0, 0.28, 0.54):
            half = tall * (0.34 - 0.3 * share)
            base = y - tall * share
            canvas.polygon([(at - half, base), (at, base - tall * 0.52), (at + half, base)], fir)
            left, right = (at - half * 0.5, base - tall * 0.27), (at + half * 0.3, base - tall * 0.3)
            canvas.polygon([left, (at, base - tall * 0.52), right], (240, 244, 250))
    cable = flip([(0.1, y0 - 0.14), (1.0, y1 - 0.1)])
    canvas.line(cable, 0.006, (50, 50, 55))
    for share in (0.15, 0.45, 0.75):
        x, y = _between(*cable, share)
        canvas.line([(x, y), (x, y + 0.06)], 0.006, (50, 50, 55))
        canvas.rectangle(x - 0.025, y + 0.05, x + 0.025, y + 0.075, _shade(rng, (180, 60, 50), 30))
    pylon = _between(*cable, 0.6)
    canvas.line([pylon, (pylon[0], pylon[1] + 0.22)], 0.014, (90, 95, 105))
    for _ in range(rng.integers(1, 4)):
        x, y = rng.uniform(0.3, 0.75), rng.uniform(0.62, 0.9)
        suit = _shade(rng, rng.choice([(200, 50, 50), (40, 80, 190), (240, 160, 40)]))
        canvas.line([(x, y), (x + 0.02, y - 0.05)], 0.022, suit)
        canvas.ellipse((x + 0.025, y - 0.075), 0.014, suit * 0.6)
        canvas.line([(x - 0.04, y + 0.012), (x + 0.05, y + 0.02)], 0.007, (30, 30, 30))


def _track(canvas: Canvas, rng) -> None:
    """Draw an outdoor running track: lanes with white lines bending round a lawn, a stand behind."""
    horizon = rng.uniform(0.26, 0.36)
    lawn = _shade(rng, (90, 150, 70))
    canvas.rectangle(0, 0, 1, 1, lawn * 0.9)
    rubber = _shade(rng, rng.choice([(185, 80, 60), (165, 65, 50), (70, 100, 165)]))
    side = rng.choice([-1, 1])
    centre = np.array([0.5 + side * rng.uniform(0.3, 0.45), horizon + rng.uniform(0.16, 0.24)])
    lanes = rng.integers(6, 9)
    outer, inner = np.array([1.12, 0.6]), np.array([0.42, 0.1])
    canvas.ellipse(centre, outer, rubber)
    for lane in range(lanes + 1):
        share = lane / lanes
        radii = outer + (inner - outer) * share
        canvas.ellipse(centre, radii + 0.011 * (1 - 0.5 * share), (242, 240, 235))
        canvas.ellipse(centre, radii, rubber if lane < lanes else lawn)
    for number in range(-3, 4, 2):
        x = centre[0] + number * 0.09
        canvas.line([(x, centre[1] - 0.06), (x * 1.02, centre[1] + 0.06)], 0.05, lawn * 1.1)
    turn = np.pi / 2 + side * rng.uniform(0.2, 0.7)
    line = [centre + inner * (np.cos(turn), np.sin(turn)), centre + outer * (np.cos(turn), np.sin(turn))]
    canvas.line(line, 0.014, (242, 240, 235))
    _sky(canvas, rng, horizon)
    stand = _shade(rng, (150, 150, 155))
    canvas.rectangle(-0.1, horizon - 0.13, 1.1, horizon + 0.01, stand)
    for y in np.arange(horizon - 0.12, horizon - 0.02, 0.026):
        for x in np.arange(rng.uniform(0, 0.02), 1, 0.032):
            canvas.rectangle(x, y, x + 0.018, y + 0.014, _shade(rng, (140, 110, 120), 45))
    for x in (0.1, 0.5, 0.9):
        canvas.line([(x, horizon), (x, horizon - 0.22)], 0.01, (90, 90, 95))
        canvas.rectangle(x - 0.035, horizon - 0.25, x + 0.035, horizon - 0.21, (225, 225, 215))


_SCENES = (
    _bamboo_forest, _bedroom, _bowling_alley, _bus_interior, _cockpit, _corn_field, _laundromat, _runway, _ski_slope,
    _track,
)  # fmt: skip
SCENES = {draw.__name__.removeprefix("_"): draw for draw in _SCENES}


def draw_scene(name: str, rng: np.random.Generator, size: int = 128) -> np.ndarray:
    """Draw one of ``SCENES`` with random brightness, tint, crop and grain, (size, size, 3) uint8.

    It is drawn at twice that size and reduced.
    """
    mirror, zoom, tilt = rng.choice([-1.0, 1.0]), rng.uniform(1.0, 1.18), rng.uniform(-0.04, 0.04)
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]]) * (zoom + 1.2 * abs(tilt))
    linear = turn @ np.diag([mirror, 1.0])
    slack = (zoom - 1) / 2
    shift = np.array([0.5, 0.5]) + rng.uniform(-slack, slack, 2) - linear @ [0.5, 0.5]
    canvas = Canvas(2 * size, (128, 128, 128), np.concatenate([linear, shift[:, None]], axis=1))
    SCENES[name](canvas, rng)
    image = canvas.picture(reduce=2)
    grey = image.mean(axis=2, keepdims=True)
    image = grey + (image - grey) * rng.uniform(0.35, 1.2)
    image = image * rng.uniform(0.65, 1.15) * rng.uniform(0.85, 1.15, 3).astype(np.float32)
    image += rng.standard_normal((size, size, 1), dtype=np.float32) * rng.uniform(2, 7)
    return np.clip(image, 0, 255).astype(np.uint8)
