"""Draws the dashboard's panels from what their queries return, as SVG. It knows the kinds of panels and the settings that the
dashboard uses, and no others."""

import re
import time
from xml.sax.saxutils import escape

import units

BACKGROUND, PANEL, BORDER, GRID, TEXT, FAINT = "#111217", "#181b1f", "#25282d", "#2a2d33", "#d0d1d8", "#8e8f99"
RED, GREEN, ORANGE = "#f2495c", "#73bf69", "#ff9830"
PALETTE = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#8ab8ff", "#b877d9", "#96d98d", "#ffee52", "#ca95e5",
           "#fa6400", "#37872d", "#1f60c4", "#e0b400"]
NAMED = {"red": RED, "green": GREEN, "transparent": None}
FONT = "font-family='Inter,Helvetica,Arial,sans-serif'"
COLUMN, LINE, GAP = 54, 34, 6


def label(x, y, words, size=11, color=FAINT, anchor="start", weight=400):
    return (f"<text x='{x:.0f}' y='{y:.0f}' font-size='{size}' fill='{color}' text-anchor='{anchor}'"
            f"{f' font-weight={chr(39)}{weight}{chr(39)}' if weight != 400 else ''}>{escape(words)}</text>")


def rect(x, y, w, h, color, more=""):
    return f"<rect x='{x:.1f}' y='{y:.1f}' width='{w:.1f}' height='{h:.1f}' fill='{color}'{more}/>"


def path(points):
    """Lines from point to point; of each the change only, in tenths."""
    (x, y), *rest = [(round(10 * x), round(10 * y)) for x, y in points]
    parts = [f"M{x / 10:g} {y / 10:g}l"]
    for nx, ny in rest:
        parts.append(f"{(nx - x) / 10:g} {(ny - y) / 10:g} ")
        x, y = nx, ny
    return "".join(parts).strip() if rest else f"M{x / 10:g} {y / 10:g}h.1"


class Frame:
    """Where a panel draws: the place of its content, and the time that it shows."""

    def __init__(self, grid, times):
        self.left, self.top = grid["x"] * COLUMN + GAP / 2, grid["y"] * LINE + GAP / 2
        self.width, self.height = grid["w"] * COLUMN - GAP, grid["h"] * LINE - GAP
        self.times = times
        # The content, without title, legend and axes.
        self.x, self.y = self.left + 50, self.top + 28
        self.w, self.h = self.width - 60, self.height - 68

    def at(self, moment):
        first, last = self.times[0], self.times[-1]
        return self.x + (moment - first) / (last - first) * self.w

    def box(self):
        return rect(self.left, self.top, self.width, self.height, PANEL, f" rx='3' stroke='{BORDER}'")

    def clock(self):
        """The axis of time."""
        out = []
        every = next(step for step in (15, 30, 60, 120, 300) if (self.times[-1] - self.times[0]) / step < self.w / 60)
        moment = -(-self.times[0] // every) * every
        while moment <= self.times[-1]:
            out.append(label(self.at(moment), self.y + self.h + 14, time.strftime("%H:%M:%S", time.gmtime(moment)), 9.5, anchor="middle"))
            moment += every
        return out

    def legend(self, names):
        """Names with their colours, as many as there is room for."""
        out, x, y = [], self.left + 10, self.top + self.height - 8
        for place, (name, color) in enumerate(names):
            width = 16 + 5.6 * len(name) + 10
            if x + width > self.left + self.width - 24:
                out.append(label(x, y, f"+{len(names) - place}", 10))
                break
            out += [rect(x, y - 5, 10, 3, color), label(x + 14, y, name, 10, TEXT)]
            x += width
        return out


def legend_of(target, labels):
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), target["legendFormat"])


def threshold(panel, value):
    """The colour of the step that a value is on."""
    color = None
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            color = NAMED[step["color"]]
    return color


def stat(panel, frame, series):
    unit = panel["fieldConfig"]["defaults"]["unit"]
    points = [point for _, _, found in series for point in found]
    value = points[-1][1] if points else None
    color = threshold(panel, value) if value is not None else None
    out = [frame.box() if not color else rect(frame.left, frame.top, frame.width, frame.height, color, " rx='3'")]
    out.append(label(frame.left + 10, frame.top + 19, panel["title"], 12, "#fff" if color else TEXT, weight=500))
    if len(points) > 1:
        top = max(number for _, number in points) or 1
        low, high = frame.top + frame.height - 2, frame.height * 0.38
        line = [(frame.left + 1 + (at - frame.times[0]) / (frame.times[-1] - frame.times[0]) * (frame.width - 2), low - number / top * high)
                for at, number in points]
        shape = path([(line[0][0], low), *line, (line[-1][0], low)])
        out.append(f"<path d='{shape}' fill='{'#fff' if color else '#5794f2'}' opacity='.25'/>")
    if value is not None and panel["fieldConfig"]["defaults"].get("decimals") == 0:
        value = round(value)
    shown = units.text(value, unit) if value is not None else "No data"
    out.append(label(frame.left + frame.width / 2, frame.top + 64, shown, 24, "#fff", "middle", 600))
    return out


def settings(panel, name):
    """Unit and style of a series, with what is overridden for its name."""
    config = panel["fieldConfig"]
    found = {"unit": config["defaults"]["unit"], "custom.axisPlacement": "auto",
             "custom.fillOpacity": config["defaults"]["custom"]["fillOpacity"]}
    for override in config["overrides"]:
        if re.fullmatch(override["matcher"]["options"], name):
            found |= {one["id"]: one["value"] for one in override["properties"]}
    return found


class Axis:
    """Values to heights, of what is shown on one side."""

    def __init__(self, frame, values, unit, low):
        bounds = [*values, 0] if low == 0 else values
        self.ticks = units.ticks(min(bounds), max(bounds), unit) if values else [0, 1]
        self.frame, self.unit = frame, unit

    def y(self, value):
        low, high = self.ticks[0], self.ticks[-1]
        return self.frame.y + self.frame.h * (1 - (value - low) / (high - low))

    def marks(self, right=False):
        frame, out = self.frame, []
        for tick in self.ticks:
            if not right:
                out.append(f"<path d='M{frame.x:.0f} {self.y(tick):.1f}h{frame.w:.0f}' stroke='{GRID}'/>")
            x, anchor = (frame.x + frame.w + 4, "start") if right else (frame.x - 5, "end")
            out.append(label(x, self.y(tick) + 3, units.text(tick, self.unit), 9.5, anchor=anchor))
        return out


def timeseries(panel, frame, series):
    custom = panel["fieldConfig"]["defaults"]["custom"]
    low = panel["fieldConfig"]["defaults"].get("min")
    named = [(name, points, settings(panel, name)) for name, _, points in series]
    right = [one for one in named if one[2]["custom.axisPlacement"] == "right"]
    stacked = custom["stacking"]["mode"] == "normal"
    if right:
        frame.w -= 34
    sums = {}
    if stacked:
        for _, points, _ in named:
            for at, value in points:
                sums[at] = sums.get(at, 0) + value
    values = {False: list(sums.values()) or [value for one in named if one not in right for _, value in one[1]],
              True: [value for one in right for _, value in one[1]]}
    unit = panel["fieldConfig"]["defaults"]["unit"]
    left_axis = Axis(frame, values[False], unit, low)
    right_axis = Axis(frame, values[True], right[0][2]["unit"], low) if right else None
    out = [*left_axis.marks(), *(right_axis.marks(True) if right else []), *frame.clock()]
    if custom.get("thresholdsStyle"):
        out.append(rect(frame.x, frame.y, frame.w, frame.h, RED, " opacity='.08'"))
    base = {}
    step = frame.times[1] - frame.times[0]
    for place, (name, points, style) in enumerate(named):
        color = PALETTE[place % len(PALETTE)]
        axis = right_axis if right and style["custom.axisPlacement"] == "right" else left_axis
        opacity = style["custom.fillOpacity"] / 100
        if custom["drawStyle"] == "bars":
            width = max(frame.w / len(frame.times) * 0.8, 1)
            for at, value in points:
                bottom = base.get(at, 0)
                if value > 0:
                    out.append(rect(frame.at(at) - width / 2, axis.y(bottom + value), width, axis.y(bottom) - axis.y(bottom + value),
                                    color, f" opacity='{opacity:g}'"))
                base[at] = bottom + value
            continue
        for run in unbroken(points, step):
            tops = [(at, value + (base.get(at, 0) if stacked else 0)) for at, value in run]
            line = [(frame.at(at), axis.y(value)) for at, value in tops]
            floor = [(frame.at(at), axis.y(base.get(at, 0) if stacked else max(axis.ticks[0], 0))) for at, _ in run]
            if opacity:
                out.append(f"<path d='{path([*line, *reversed(floor)])}' fill='{color}' opacity='{opacity:g}'/>")
            out.append(f"<path d='{path(line)}' fill='none' stroke='{color}' stroke-width='1.3'/>")
            if stacked:
                base |= dict(tops)
    if not named:
        out.append(nothing(panel, frame))
    return out + frame.legend([(name, PALETTE[place % len(PALETTE)]) for place, (name, _, _) in enumerate(named)])


def unbroken(points, step):
    """Points that follow one another without a gap."""
    run = []
    for point in points:
        if run and point[0] - run[-1][0] > 1.5 * step:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def nothing(panel, frame):
    words = panel["fieldConfig"]["defaults"].get("noValue", "No data")
    return label(frame.x + frame.w / 2, frame.y + frame.h / 2, words, 13, FAINT, "middle")


def heatmap(panel, frame, series):
    bounds = sorted({float(labels["le"]) for _, labels, _ in series})
    grid = {(float(labels["le"]), at): value for _, labels, points in series for at, value in points}
    counts = {(row, at): grid.get((bound, at), 0) - grid.get((bounds[row - 1], at), 0) if row else grid.get((bound, at), 0)
              for row, bound in enumerate(bounds) for at in frame.times}
    most = max(counts.values(), default=1) or 1
    height, width = frame.h / max(len(bounds), 1), frame.w / len(frame.times)
    out = frame.clock()
    for row, bound in enumerate(bounds):
        y = frame.y + frame.h - (row + 1) * height
        words = units.text(bound, "s") if bound != float("inf") else "more"
        out.append(label(frame.x - 5, y + height / 2 + 3, words, 9, anchor="end"))
        for place, at in enumerate(frame.times):
            if (count := counts[row, at]) > 0.5:
                out.append(rect(frame.x + place * width, y + 0.5, width - 0.5, height - 1, ORANGE, f" opacity='{0.12 + 0.88 * (count / most) ** 0.5:.2f}'"))
    return out


def state_timeline(panel, frame, series):
    texts = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    shift = 78
    frame.x, frame.w = frame.x + shift, frame.w - shift
    out = frame.clock()
    height = frame.h / max(len(series), 1)
    step = frame.times[1] - frame.times[0]
    for row, (name, _, points) in enumerate(series):
        y = frame.y + row * height
        out.append(label(frame.x - 5, y + height / 2 + 3, name, 9, anchor="end"))
        run = []
        for point in [*points, (None, None)]:
            if run and (point[1] != run[0][1] or point[0] - run[-1][0] > 1.5 * step):
                end = min(frame.at(run[-1][0] + step), frame.x + frame.w)
                out.append(rect(frame.at(run[0][0]), y + height * 0.1, end - frame.at(run[0][0]), height * 0.8, threshold(panel, run[0][1]), " opacity='.75'"))
                run = []
            run.append(point)
    return out + frame.legend([(texts[str(state)]["text"], threshold(panel, state)) for state in (1, 0)])


KINDS = {"timeseries": timeseries, "heatmap": heatmap, "state-timeline": state_timeline}


def panel(panel, times, series, marks=()):
    """One panel. `series` are names with labels and points; `marks` are moments with a name, of alerts that began."""
    frame = Frame(panel["gridPos"], times)
    if panel["type"] == "stat":
        return stat(panel, frame, series)
    out = [frame.box(), label(frame.left + 10, frame.top + 19, panel["title"], 12, TEXT, weight=500)]
    out += KINDS[panel["type"]](panel, frame, series)
    for moment, _ in marks:
        out.append(f"<path d='M{frame.at(moment):.1f} {frame.y:.0f}v{frame.h:.0f}' stroke='{RED}' stroke-dasharray='2 3' opacity='.8'/>")
    return out


def row(panel):
    grid = panel["gridPos"]
    return [label(grid["x"] * COLUMN + 8, grid["y"] * LINE + 23, f"⌄  {panel['title']}", 14, TEXT, weight=600)]


def page(columns, lines, content):
    """A whole picture of so many columns and lines of the dashboard's grid."""
    width, height = columns * COLUMN, lines * LINE
    return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' {FONT}>"
            f"{rect(0, 0, width, height, BACKGROUND)}\n" + "\n".join(content) + "\n</svg>\n")
