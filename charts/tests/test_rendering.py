"""Every case renders, to what Kubernetes takes and to what was rendered before."""

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import kubernetes_validate

import chart

# The cases whose text is kept, so that a change of it is seen.
KEPT = ["default", "cluster-operator", "tls", "extras", "monitoring", "autoscaling"]
CUSTOM = ("monitoring.coreos.com/", "keda.sh/")

# Each validation reads Kubernetes's definitions anew otherwise.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


def every_object():
    """What all cases and the application's chart render to, each object once."""
    texts = [chart.rendered(case) for case in chart.CASES]
    texts += [chart.succeeded(chart.template(*native, chart=chart.shop())) for native in SHOP]
    objects = {json.dumps(one, sort_keys=True): one for text in texts for one in chart.documents(text)}
    return list(objects.values())


SHOP = [[], ["--set", "leveret.sidecar.native=false"]]


class Rendering(unittest.TestCase):
    maxDiff = None

    def test_there_are_cases(self):
        self.assertGreater(len(chart.CASES), 10)

    def test_the_linter_has_nothing_to_say(self):
        for case, values in chart.CASES.items():
            with self.subTest(case):
                said = chart.succeeded(chart.helm("lint", "--strict", chart.CHART, "--values", values))
                self.assertIn("0 chart(s) failed", said)

    def test_kubernetes_takes_every_object(self):
        objects = [one for one in every_object() if not one["apiVersion"].startswith(CUSTOM)]
        self.assertGreater(len(objects), 40)
        for version in chart.KUBERNETES:
            for one in objects:
                with self.subTest(version=version, kind=one["kind"], name=one["metadata"]["name"]):
                    kubernetes_validate.validate(one, version, strict=True)

    def test_kubernetes_refuses_what_is_wrong(self):
        wrong = chart.find(chart.documents(chart.rendered("default")), "Deployment")
        wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
        for version in chart.KUBERNETES:
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(wrong, version, strict=True)

    def test_the_operators_take_every_custom_resource(self):
        objects = [one for one in every_object() if one["apiVersion"].startswith(CUSTOM)]
        kinds = {one["kind"] for one in objects}
        self.assertEqual(kinds, {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ScaledObject"})
        wrong = json.loads(json.dumps(next(one for one in objects if one["kind"] == "ScaledObject")))
        wrong["spec"]["triggers"] = "none"
        self.assertEqual(check_custom(objects), "")
        self.assertIn("triggers", check_custom([wrong]))

    def test_nothing_has_changed_unseen(self):
        texts = {case: chart.rendered(case) for case in KEPT}
        texts["sidecar"] = chart.succeeded(chart.template(chart=chart.shop()))
        for case, text in texts.items():
            kept = chart.TESTS / f"golden/{case}.yaml"
            # Long, and kept as they are in files/dashboards.
            text = re.sub(r"(  \w+\.json: \|\n)(?:    .*\n|\n)+", r"\1    ...\n", text)
            if "UPDATE" in os.environ:
                kept.write_text(text)
            with self.subTest(case):
                self.assertEqual(text, kept.read_text(), "if this is meant, run scripts/test-chart --update")

    def test_it_can_be_packed_and_used_from_the_package(self):
        said = chart.succeeded(chart.helm("package", chart.CHART, "--destination", chart.HOME))
        package = Path(said.strip().rpartition(" ")[2])
        packed = chart.succeeded(chart.template("--kube-version", chart.KUBERNETES[-1], chart=package))
        self.assertEqual(packed, chart.rendered("default"))

    def test_every_case_works_as_a_subchart(self):
        parent = Path(tempfile.mkdtemp(dir=chart.HOME)) / "parent"
        shutil.copytree(chart.CHART, parent / "charts/leveret")
        (parent / "Chart.yaml").write_text("apiVersion: v2\nname: parent\nversion: 1.0.0\n")
        for case, values in chart.CASES.items():
            with self.subTest(case):
                nested = {"leveret": chart.documents(values.read_text())[0] if case != "default" else {}}
                nested["global"] = nested["leveret"].pop("global", {})
                ran = chart.template(
                    "--kube-version", chart.KUBERNETES[-1], "--values", "-",
                    chart=parent, stdin=json.dumps(nested),
                )
                text = chart.succeeded(ran).replace("parent/charts/leveret/", "leveret/")
                self.assertEqual(text, chart.rendered(case))

    def test_dashboards_are_shipped_as_they_are(self):
        copy = Path(tempfile.mkdtemp(dir=chart.HOME)) / "leveret"
        shutil.copytree(chart.CHART, copy)
        dashboards = copy / "files/dashboards"
        shutil.rmtree(dashboards, ignore_errors=True)
        dashboards.mkdir()
        texts = {"one.json": '{"legend": "{{ bridge }}"}\n', "two.json": '{\n  "a": "$__rate_interval"\n}\n'}
        for name, text in texts.items():
            (dashboards / name).write_text(text)
        objects = chart.documents(chart.succeeded(chart.template("--set", "dashboards.enabled=true", chart=copy)))
        found = [one for one in objects if "-dashboard-" in one["metadata"]["name"]]
        self.assertEqual([one["metadata"]["labels"]["grafana_dashboard"] for one in found], ["1", "1"])
        self.assertEqual({name: text for one in found for name, text in one["data"].items()}, texts)


def check_custom(objects):
    """What the operators' own schemas have against the objects."""
    script = chart.TESTS / "custom-resources.mjs"
    ran = subprocess.run(["node", script], input=json.dumps(objects), capture_output=True, text=True)
    if ran.returncode:
        raise AssertionError(ran.stderr)
    return ran.stdout
