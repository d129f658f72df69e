"""Draws the dashboard as it looks in some minutes under load with faults in them: the same stack as the tests', the panels' own
queries, and a drawing of this project's, since Grafana is not needed for that. Writes docs/pictures/dashboard.svg, and
beside the program's temporary files nothing else."""

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import alerts
import chart
import dashboard
import drawing
import scene

PICTURE = chart.ROOT / "docs/pictures/dashboard.svg"
STEP = 3
# How often Prometheus scrapes here is once a second; Grafana would take four scrapes, and a step at least.
RATE_INTERVAL = "6s"


def act(folder):
    """The minutes that are shown: all well, a full target and messages nobody wants, an alarm, a replica that dies."""
    groups = scene.hastened(alerts.groups(alerts.VALUES))
    with contextlib.closing(scene.Scene(folder, os.environ.get("BROKER", "installed"), groups)) as on:
        begun = time.time() + 20
        time.sleep(80)
        with on.full_target(), on.unroutable():
            time.sleep(35)
        time.sleep(35)
        with on.memory_alarm():
            time.sleep(25)
        time.sleep(45)
        with on.dead(on.replicas[1]):
            time.sleep(20)
        time.sleep(30)
        return seen(on.prometheus, begun, time.time())


def seen(prometheus, begun, ended):
    """All that Prometheus answers to the dashboard's queries, and when alerts began."""
    begun, ended = int(begun), int(ended)
    times = list(range(begun, ended + 1, STEP))

    def asked(expr):
        expr = dashboard.filled(expr, rate_interval=RATE_INTERVAL, whole=f"{ended - begun}s", job=scene.JOB)
        found = prometheus.query_range(expr, begun, times[-1], STEP)
        return sorted(found, key=lambda one: sorted(one[0].items()))

    answers = [[asked(target["expr"]) for target in panel["targets"]] for panel in dashboard.panels()]
    [marks] = dashboard.load()["annotations"]["list"]
    starts = sorted({(points[0][0], labels["alertname"]) for labels, points in asked(marks["expr"])})
    return {"times": times, "answers": answers, "marks": starts}


def drawn(found):
    panels = dashboard.load()["panels"]
    answers = iter(found["answers"])
    content = []
    for panel in panels:
        if panel["type"] == "row":
            content += drawing.row(panel)
            continue
        series = [(drawing.legend_of(target, labels), labels, [tuple(point) for point in points])
                  for target, answer in zip(panel["targets"], next(answers)) for labels, points in answer]
        content += drawing.panel(panel, found["times"], series, found["marks"])
    lines = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    return drawing.page(24, lines, content)


def main(data=None):
    """With a file of what was seen before, draws that again; without, makes it anew, and keeps it where KEEP says."""
    if data:
        found = json.loads(Path(data).read_text())
    else:
        with tempfile.TemporaryDirectory(prefix="leveret-picture-", ignore_cleanup_errors=True) as folder:
            found = act(Path(folder))
        if "KEEP" in os.environ:
            Path(os.environ["KEEP"]).write_text(json.dumps(found))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
