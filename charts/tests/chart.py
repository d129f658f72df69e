"""What the chart's tests share: running Helm, and reading what it renders."""

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/leveret"
TESTS = ROOT / "charts/tests"
# The cases, one for each feature: files of values by what they are called.
CASES = {path.name.removesuffix("-values.yaml"): path for path in sorted(CHART.glob("ci/*-values.yaml"))}
# Kubernetes's oldest version that the chart allows, and the newest whose schemas the tests have.
KUBERNETES = ["1.29", "1.37"]

_home = tempfile.TemporaryDirectory(prefix="leveret-chart-")
HOME = Path(_home.name)


class StrictLoader(yaml.CSafeLoader):
    """Refuses a key that is there twice, of which other readers take the last."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"given twice: {sorted(twice)}", node.start_mark)
        return super().construct_mapping(node, deep)


def documents(text):
    """The objects in YAML text."""
    return [document for document in yaml.load_all(text, StrictLoader) if document]


def helm(*arguments, stdin=None):
    """Runs Helm, away from the user's own settings and from any cluster."""
    command = [os.environ["HELM"], *map(str, arguments)]
    own = {"HOME": str(HOME), "KUBECONFIG": os.devnull, "PATH": os.environ["PATH"]}
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=own)


def succeeded(ran):
    """What a command printed, where it succeeded and complained of nothing."""
    if ran.returncode or ran.stderr:
        raise AssertionError(f"{ran.args}: exit code {ran.returncode}\n{ran.stderr}{ran.stdout}")
    return ran.stdout


def template(*arguments, chart=CHART, stdin=None):
    """Renders a chart as the release `delays` in the namespace `messaging`."""
    return helm("template", "delays", chart, "--namespace", "messaging", *arguments, stdin=stdin)


@functools.cache
def rendered(case):
    """The text that a case renders to."""
    return succeeded(template("--kube-version", KUBERNETES[-1], "--values", CASES[case]))


def of_values(values, *arguments):
    """Renders the chart with values that are given in place."""
    return template("--values", "-", *arguments, stdin=yaml.safe_dump(values))


@functools.cache
def shop():
    """An application's chart with Leveret in it, whole: its dependency is packed into it."""
    charts = Path(tempfile.mkdtemp(dir=HOME))
    for chart in (CHART, TESTS / "shop"):
        shutil.copytree(chart, charts / chart.name)
    ran = helm("dependency", "update", charts / "shop")
    if ran.returncode:
        raise AssertionError(ran.stderr)
    return charts / "shop"


def find(objects, kind):
    """The only object of that kind."""
    [found] = [one for one in objects if one["kind"] == kind]
    return found
