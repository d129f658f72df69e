"""The dashboard follows the rules of Grafana's linter for dashboards and those of this project. What its queries return,
live/test_monitoring.py tests."""

import collections
import re
import unittest

import yaml

import alerts
import chart
import dashboard

ROWS = ["Intake", "Waiting", "Hops and bundles", "Delivery and lateness", "Parked", "Broker connection", "Process"]
KINDS = {"stat", "timeseries", "heatmap", "state-timeline"}
UNITS = {"none", "short", "mps", "s", "bytes", "bool"}
WIDTH = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def sentences(text):
    return re.findall(r"[^.]+\.(?= |$)", text)


class Dashboard(unittest.TestCase):
    def test_it_is_the_same_everywhere_and_nobodys_copy(self):
        found = dashboard.load()
        self.assertEqual((found["uid"], found["editable"]), ("leveret", False))
        self.assertNotIn("id", found)
        self.assertFalse([key for key in found if key.startswith("__")])

    def test_a_band_of_tiles_then_the_rows_of_the_flow(self):
        found = dashboard.load()["panels"]
        first = next(place for place, panel in enumerate(found) if panel["type"] == "row")
        self.assertEqual([panel["type"] for panel in found[:first]], ["stat"] * 8)
        self.assertEqual([panel["title"] for panel in found if panel["type"] == "row"], ROWS)

    def test_panels_fill_the_grid_and_overlap_nowhere(self):
        cells = collections.Counter()
        for panel in dashboard.load()["panels"]:
            at = panel["gridPos"]
            cells.update((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"]))
        bottom = max(y for _, y in cells) + 1
        self.assertEqual(cells, {(x, y): 1 for x in range(WIDTH) for y in range(bottom)})

    def test_the_variables_are_those_of_any_dashboard_of_prometheus(self):
        found = dashboard.load()["templating"]["list"]
        self.assertEqual([one["name"] for one in found], ["datasource", "namespace", "job", "instance", "bridge"])
        self.assertEqual((found[0]["type"], found[0]["query"], found[0]["label"]), ("datasource", "prometheus", "Data source"))
        for one in found[1:]:
            with self.subTest(one["name"]):
                self.assertEqual((one["type"], one["datasource"], one["label"]), ("query", SOURCE, one["name"].title()))
                self.assertTrue(one["multi"] and one["includeAll"])
                # A label that need not be there: Kubernetes gives it.
                self.assertEqual(one["allValue"], ".*" if one["name"] == "namespace" else ".+")
                self.assertEqual(one["refresh"], 2, "on change of the time range")
                self.assertRegex(one["query"], rf"^label_values\(.+, {one['name']}\)$")

    def test_every_panel_says_what_it_shows_and_what_to_do(self):
        names = {rule["alert"] for rule in alerts.rules()}
        for panel in dashboard.panels():
            with self.subTest(panel["title"]):
                self.assertIn(panel["type"], KINDS)
                self.assertTrue(panel["title"])
                self.assertGreaterEqual(len(sentences(panel["description"])), 2, panel["description"])
                self.assertLessEqual(set(re.findall("Leveret[A-Z][A-Za-z]+", panel["description"])), names)
                self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS)
                self.assertEqual(panel["datasource"], SOURCE)

    def test_every_alert_is_named_by_a_panel(self):
        text = " ".join(panel["description"] for panel in dashboard.panels())
        missing = [rule["alert"] for rule in alerts.rules() if rule["alert"] not in text]
        self.assertEqual(missing, [])

    def test_numbers_are_unique(self):
        found = [panel["id"] for panel in dashboard.load()["panels"]]
        self.assertEqual(len(found), len(set(found)))

    def test_every_query_has_its_place(self):
        for panel, target in dashboard.queries():
            with self.subTest(panel["title"], query=target["refId"]):
                self.assertEqual(target["datasource"], SOURCE)
                self.assertTrue(target["legendFormat"])
                self.assertEqual([one["refId"] for one in panel["targets"]], list("ABCDEF")[:len(panel["targets"])])

    def test_every_query_is_about_what_is_chosen(self):
        bridged = re.compile(r"\b(bridge|reason)\b")
        labels = labels_of_metrics()
        for panel, target in dashboard.queries():
            with self.subTest(panel["title"], query=target["refId"]):
                found = dashboard.selectors(target["expr"])
                self.assertTrue(found)
                for series, braces in found:
                    matchers = braces.split(", ")
                    for name in ("namespace", "job", "instance"):
                        self.assertIn(f'{name}=~"${name}"', matchers, series)
                    has_bridge = bool(bridged.search(labels.get(dashboard.metric(series), "")))
                    self.assertEqual('bridge=~"$bridge"' in matchers, has_bridge, series)

    def test_counters_are_rates_or_increases(self):
        ranges = {"rate": ["$__rate_interval"], "increase": ["$__rate_interval", "$__range"]}
        for panel, target in dashboard.queries():
            with self.subTest(panel["title"], query=target["refId"]):
                for series in re.finditer(r"(\w+)\((leveret|process)_\w+_(total|bucket|sum|count)\{[^}]*\}\[([^]]+)\]", target["expr"]):
                    self.assertIn(series[4], ranges.get(series[1], []), series[0])
                counters = re.findall(r"\b(?:leveret|process)_\w+_(?:total|bucket|sum|count)\{[^}]*\}(.?)", target["expr"])
                self.assertEqual([after for after in counters if after != "["], [])

    def test_prometheus_understands_every_query(self):
        file = chart.HOME / "dashboard.rules.yaml"
        records = [{"record": f"query_{number}", "expr": dashboard.filled(target["expr"])}
                   for number, (_, target) in enumerate(dashboard.queries())]
        file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
        ran = alerts.promtool("check", "rules", file)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertNotIn("$", "".join(record["expr"].replace('"$1"', "") for record in records))

    def test_every_metric_of_leverets_is_on_it(self):
        shown = {dashboard.metric(series) for _, target in dashboard.queries() for series, _ in dashboard.selectors(target["expr"])}
        known = set(labels_of_metrics())
        self.assertGreater(len(known), 25)
        self.assertEqual({name for name in known if name.startswith("leveret_")} - shown, set())
        self.assertEqual(shown - known, {"up"})


def labels_of_metrics():
    """Every metric with its labels, by the README, which a test holds to the program."""
    rows = re.findall(r"^\| `((?:leveret|process)_\w+)` \| \w+ \| (.+?) \|", (chart.ROOT / "README.md").read_text(), re.M)
    return dict(rows)


if __name__ == "__main__":
    unittest.main()
