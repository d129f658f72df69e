"""What is written by machine: parts of the chart's README, the schema of `config`, and the alerts for deploy/compose.yaml. Run, it
writes them."""

import json
import os
import re
import subprocess
from dataclasses import dataclass

import yaml

import alerts
import chart

README = chart.CHART / "README.md"
SCHEMA = chart.CHART / "values.schema.json"
RULES = chart.ROOT / "deploy/alerts.yaml"


@dataclass
class Value:
    """A row of the table of values."""

    path: str
    default: str
    text: str


def values():
    """Every value with its comment in values.yaml; of a value whose parts have no comments, the whole."""
    text = (chart.CHART / "values.yaml").read_text()
    lines = text.splitlines()

    def comment(key):
        found = []
        for line in reversed(lines[: key.start_mark.line]):
            if not line.strip().startswith("#"):
                break
            found.insert(0, line.strip().removeprefix("#").strip())
        return " ".join(found)

    def walk(mapping, path):
        for key, node in mapping.value:
            name = f"{path}{key.value}"
            parts = node.value if isinstance(node, yaml.MappingNode) else []
            if any(comment(part) for part, _ in parts):
                yield Value(name, "", comment(key))
                yield from walk(node, f"{name}.")
            else:
                default = yaml.SafeLoader("").construct_document(node)
                yield Value(name, f"`{json.dumps(default)}`", comment(key))

    return list(walk(yaml.compose(text), ""))


def table():
    rows = [f"| `{value.path}` | {value.default} | {value.text.replace('|', chr(92) + '|')} |" for value in values()]
    return "\n".join(["| value | default | what it is |", "| --- | --- | --- |", *rows])


class Plain(yaml.SafeDumper):
    """YAML as people write it: texts of several lines stay such."""


def text_of(dumper, text):
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Plain.add_representer(str, text_of)
Plain.ignore_aliases = lambda *_: True


def sidecar():
    """What the application's chart of the tests renders to, without what only Helm needs."""
    objects = [
        one
        for one in chart.documents(chart.succeeded(chart.template(chart=chart.shop())))
        if "helm.sh/hook" not in one["metadata"].get("annotations", {})
    ]
    for one in objects:
        for key in ("namespace", "labels"):
            one["metadata"].pop(key, None)
        one.get("spec", {}).get("template", {}).get("metadata", {}).pop("annotations", None)
    texts = [yaml.dump(one, Dumper=Plain, sort_keys=False, width=1000) for one in objects]
    joined = "---\n".join(texts)
    return f"```yaml\n{joined}```"


def including():
    """What an application's chart needs to include Leveret: the chart of the tests."""
    files = ["Chart.yaml", "values.yaml", "templates/deployment.yaml"]
    texts = [(chart.TESTS / "shop" / name).read_text() for name in files]
    return "\n\n".join(f"`{name}`:\n\n```yaml\n{text}```" for name, text in zip(files, texts))


PARTS = {"values": table, "sidecar": sidecar, "including": including}


def readme():
    """The README as it should be."""
    text = README.read_text()
    for name, part in PARTS.items():
        begin, end = f"<!-- {name}: generated -->\n", f"\n<!-- {name}: end -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
        text, count = pattern.subn(lambda _: begin + part() + end, text)
        assert count == 1, f"{README} has {count} places for {name}"
    return text


def schema():
    """The schema of the values as it should be: that of `config` is Leveret's own."""
    ran = subprocess.run([os.environ["LEVERET"], "print", "schema"], capture_output=True, text=True, check=True)
    config = json.loads(ran.stdout)
    # Of the whole, which has its own.
    del config["$schema"], config["title"]
    whole = json.loads(SCHEMA.read_text())
    whole["properties"]["config"]["then"] = config
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def rules():
    """The chart's alerts as Prometheus reads them from a file, for the job of deploy/prometheus.yaml."""
    groups = alerts.groups({"fullnameOverride": "leveret", "prometheusRule": {"enabled": True, "selector": 'job="leveret"'}})
    text = yaml.dump({"groups": groups}, Dumper=Plain, sort_keys=False, width=1000)
    return f"# The alerts of the Helm chart, for prometheus.yaml. Written by scripts/test-chart --update.\n{text}"


if __name__ == "__main__":
    RULES.write_text(rules())
    SCHEMA.write_text(schema())
    README.write_text(readme())
