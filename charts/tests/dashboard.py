"""The dashboard as data: its panels, and its queries with what stands for their variables."""

import json
import re

import chart

FILE = chart.CHART / "files/dashboards/leveret.json"
# A metric and what is in its braces.
SELECTOR = re.compile(r"\b((?:leveret|process)_[a-z_]+|up|ALERTS)\b(?:\{([^}]*)\})?")
# What a histogram's series have at their ends.
PARTS = re.compile("_(bucket|sum|count)$")


def load():
    return json.loads(FILE.read_text())


def panels():
    """All that show something, in their order."""
    return [panel for panel in load()["panels"] if panel["type"] != "row"]


def queries():
    """Each query with its panel."""
    return [(panel, target) for panel in panels() for target in panel["targets"]]


def variables():
    """Those that are asked of Prometheus, by name."""
    return {one["name"]: one for one in load()["templating"]["list"] if one["type"] == "query"}


def filled(expr, rate_interval="1m", whole="1h", **chosen):
    """A query as Grafana sends it: with everything chosen, or the values that are given."""
    values = {name: chosen.get(name, variable["allValue"]) for name, variable in variables().items()}
    values |= {"__rate_interval": rate_interval, "__range": whole}
    for name, value in values.items():
        expr = re.sub(rf"\${name}\b", lambda _: value, expr)
    return expr


def selectors(expr):
    """The metrics in a query, each with what is in its braces."""
    return [(found[1], found[2] or "") for found in SELECTOR.finditer(expr)]


def metric(series):
    """The metric that a series belongs to."""
    return PARTS.sub("", series) if series.startswith("leveret_") else series
