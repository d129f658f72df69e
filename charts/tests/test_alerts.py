"""The alerts fire when they should and only then, and each has a page that says what to do."""

import json
import re
import tempfile
import unittest
from pathlib import Path

import yaml

import chart
from alerts import VALUES, groups, promtool, rules

RUNBOOKS = chart.ROOT / "docs/runbooks"
SECTIONS = ["## Meaning", "## Impact", "## Look at", "## Do"]


class Alerts(unittest.TestCase):
    def test_they_do_what_their_tests_say(self):
        folder = Path(tempfile.mkdtemp(dir=chart.HOME))
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups(VALUES)}))
        tests = chart.TESTS / "alerts.test.yaml"
        (folder / tests.name).write_text(tests.read_text())
        ran = promtool("test", "rules", folder / tests.name)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_each_is_seen_to_fire_and_not_to_fire(self):
        seen = {True: set(), False: set()}
        for test in yaml.safe_load((chart.TESTS / "alerts.test.yaml").read_text())["tests"]:
            for expected in test["alert_rule_test"]:
                seen[bool(expected.get("exp_alerts"))].add(expected["alertname"])
        names = {rule["alert"] for rule in rules()}
        self.assertEqual(seen, {True: names, False: names})

    def test_prometheus_takes_the_rules_of_every_case(self):
        for case in ["monitoring", "podmonitor", "sidecar"]:
            with self.subTest(case):
                objects = chart.documents(chart.rendered(case))
                file = chart.HOME / f"{case}.rules.yaml"
                file.write_text(yaml.safe_dump(chart.find(objects, "PrometheusRule")["spec"]))
                ran = promtool("check", "rules", file)
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_each_has_a_page_and_each_page_an_alert(self):
        names = [rule["alert"] for rule in rules()]
        pages = {page.stem: page.read_text() for page in RUNBOOKS.glob("*.md") if page.stem != "README"}
        self.assertEqual(sorted(names), sorted(pages))
        for name, page in pages.items():
            with self.subTest(name):
                self.assertEqual(page.partition("\n")[0], f"# {name}")
                self.assertEqual(re.findall("^## .*$", page, re.M), SECTIONS)

    def test_each_says_what_it_is(self):
        for rule in rules():
            with self.subTest(rule["alert"]):
                self.assertIn(rule["labels"]["severity"], ["critical", "warning"])
                self.assertEqual(rule["annotations"]["runbook_url"], f"docs/runbooks/{rule['alert']}.md")
                self.assertTrue(rule["annotations"]["summary"].endswith("."))

    def test_the_values_count(self):
        monitored = chart.find(chart.documents(chart.rendered("monitoring")), "PrometheusRule")["spec"]["groups"]
        self.assertEqual([group["name"] for group in monitored], ["delays-leveret", "own"])
        found = {rule["alert"]: rule for rule in monitored[0]["rules"]}
        self.assertNotIn("LeveretClockStepped", found)
        late = found["LeveretLate"]
        self.assertIn("> 0.5", late["expr"])
        self.assertEqual(late["labels"], {"severity": "warning", "team": "messaging"})
        self.assertEqual(late["annotations"]["runbook_url"], "https://runbooks.example.com/leveret/LeveretLate.md")

    def test_they_are_about_the_series_of_their_monitor(self):
        jobs = {
            'namespace="messaging", job="delays-leveret"': VALUES,
            'namespace="messaging", job="messaging/delays-leveret"':
                {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
            'job="mine"': {"prometheusRule": {"enabled": True, "selector": 'job="mine"'}},
        }
        for selector, values in jobs.items():
            text = json.dumps([rule["expr"] for rule in rules(values)])
            self.assertIn(json.dumps(f"up{{{selector}}} == 0")[1:-1], text)
            self.assertNotIn("SELECTOR", text)

    def test_the_schema_names_them_all(self):
        schema = json.loads((chart.CHART / "values.schema.json").read_text())
        names = schema["properties"]["prometheusRule"]["properties"]["disabled"]["items"]["enum"]
        self.assertEqual(names, [rule["alert"] for rule in rules()])
