"""What is generated is current: the README's table and its plain YAML, the schema of `config`, the alerts in deploy."""

import json
import unittest

import chart
import generated

STALE = "run scripts/test-chart --update"


class Generated(unittest.TestCase):
    maxDiff = None

    def test_the_readme_is_current(self):
        self.assertEqual(generated.README.read_text(), generated.readme(), STALE)

    def test_the_schema_is_current(self):
        self.assertEqual(generated.SCHEMA.read_text(), generated.schema(), STALE)

    def test_the_alerts_without_a_chart_are_current(self):
        self.assertEqual(generated.RULES.read_text(), generated.rules(), STALE)

    def test_every_value_is_documented(self):
        silent = [row.path for row in generated.values() if not row.text]
        self.assertEqual(silent, [])

    def test_the_schema_names_the_values_that_there_are(self):
        values = chart.documents((chart.CHART / "values.yaml").read_text())[0]
        self.assertEqual(list(differences(values, json.loads(generated.SCHEMA.read_text()))), [])


def differences(values, schema, path=""):
    """Values without a schema, and schemas without a value."""
    properties = schema.get("properties", {})
    if not properties:
        return
    yield from (f"{path}{key}" for key in values.keys() ^ properties.keys())
    for key in values.keys() & properties.keys():
        if isinstance(values[key], dict):
            yield from differences(values[key], properties[key], f"{path}{key}.")


if __name__ == "__main__":
    unittest.main()
