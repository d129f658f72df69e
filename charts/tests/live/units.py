"""Numbers as people read them, in the units that the dashboard's panels name; and steps for axes."""

import math


def text(value, unit):
    """A value with its unit."""
    if unit == "s":
        return _seconds(value)
    if unit == "bytes":
        return _scaled(value, 1024, ["B", "KiB", "MiB", "GiB"])
    short = _scaled(value, 1000, ["", "K", "M", "G"]).replace(" ", "")
    return f"{short} mps" if unit == "mps" else short


def _digits(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _scaled(value, base, names):
    place = 0
    while abs(value) >= base and place < len(names) - 1:
        value /= base
        place += 1
    return f"{_digits(value)} {names[place]}".strip()


def _seconds(value):
    size = abs(value)
    if size == 0:
        return "0 s"
    for limit, factor, name in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (7200, 1 / 60, "min"), (172_800, 1 / 3600, "h")):
        if size < limit:
            return f"{_digits(value * factor)} {name}"
    return f"{_digits(value / 86_400)} d"


def ticks(low, high, unit, count=4):
    """Round numbers from one at most `low` to one at least `high`."""
    span = (high - low) or 1
    base = 2 if unit == "bytes" else 10
    rough = span / count
    power = base ** math.floor(math.log(rough, base))
    steps = [1, 2] if base == 2 else [1, 2, 5, 10]
    step = next((factor * power for factor in steps if factor * power >= rough * 0.999), base * power)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]
