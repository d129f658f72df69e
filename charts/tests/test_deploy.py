"""deploy/compose.yaml and what it mounts fit together, as far as can be told without Docker: its schema, the files, the names of
services and ports in them, and the tools whose files they are."""

import copy
import os
import re
import subprocess
import unittest
from pathlib import Path

from compose_pydantic import ComposeSpecification

import alerts
import chart
import dashboard

DEPLOY = chart.ROOT / "deploy"
COMPOSE = chart.documents((DEPLOY / "compose.yaml").read_text())[0]
SERVICES = COMPOSE["services"]


def mounts(service):
    """The service's folders and files of this project: where they are here, by where they are there."""
    pairs = [volume.split(":")[:2] for volume in SERVICES[service]["volumes"]]
    return {there: DEPLOY / here for here, there in pairs if here.startswith(".")}


def here(service, path):
    """The file of this project that the service finds at a path."""
    for there, place in mounts(service).items():
        if Path(path).is_relative_to(there):
            return (place / Path(path).relative_to(there)).resolve()
    raise AssertionError(f"{service} has no {path}")


def read(file):
    return chart.documents(file.read_text())[0]


class Deploy(unittest.TestCase):
    def test_compose_takes_it(self):
        ComposeSpecification.model_validate(COMPOSE)
        wrong = copy.deepcopy(COMPOSE)
        wrong["services"]["leveret"]["depend_on"] = []
        with self.assertRaisesRegex(ValueError, "depend_on"):
            ComposeSpecification.model_validate(wrong)

    def test_everything_that_is_mounted_is_there(self):
        found = [place for service in SERVICES for place in mounts(service).values()]
        self.assertGreaterEqual(len(found), 6)
        for place in found:
            with self.subTest(place):
                self.assertTrue(place.exists())
        named = {volume.split(":")[0] for service in SERVICES.values() for volume in service["volumes"]
                 if not volume.startswith(".")}
        self.assertEqual(named, set(COMPOSE["volumes"]))

    def test_nobody_elses_machine_reaches_it(self):
        for name, service in SERVICES.items():
            for port in service["ports"]:
                with self.subTest(name, port=port):
                    self.assertTrue(port.startswith("127.0.0.1:"))

    def test_what_depends_is_there(self):
        for name, service in SERVICES.items():
            for other in service.get("depends_on", []):
                with self.subTest(name, needs=other):
                    self.assertIn(other, SERVICES)
        self.assertEqual(SERVICES["leveret"]["depends_on"], {"rabbitmq": {"condition": "service_healthy"}})
        self.assertIn("healthcheck", SERVICES["rabbitmq"])

    def test_leveret_takes_its_configuration(self):
        file = here("leveret", SERVICES["leveret"]["environment"]["LEVERET_CONFIG"])
        ran = subprocess.run([os.environ["LEVERET"], "validate", "--config", file], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        config, broker = read(file), SERVICES["rabbitmq"]["environment"]
        self.assertEqual(config["amqp"], {
            "hosts": ["rabbitmq:5672"], "username": broker["RABBITMQ_DEFAULT_USER"], "password": broker["RABBITMQ_DEFAULT_PASS"]})
        self.assertEqual(config["management"]["url"], "http://rabbitmq:15672")

    def test_the_image_can_be_built(self):
        context = DEPLOY / SERVICES["leveret"]["build"]
        self.assertIn("ENTRYPOINT", (context / "Dockerfile").read_text())

    def test_prometheus_takes_its_files(self):
        [file] = [argument.partition("=")[2] for argument in SERVICES["prometheus"]["command"] if "config.file" in argument]
        place = here("prometheus", file)
        # It finds the rules beside it, here as there.
        ran = alerts.promtool("check", "config", place)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"SUCCESS: \d\d rules found")
        config = read(place)
        self.assertEqual(here("prometheus", Path(file).with_name(*config["rule_files"])), DEPLOY / "alerts.yaml")
        [scraped] = config["scrape_configs"]
        self.assertEqual(scraped["job_name"], "leveret")
        self.assertEqual(scraped["static_configs"][0]["targets"], ["leveret:9690"])
        self.assertIn('up{job="leveret"}', (DEPLOY / "alerts.yaml").read_text())

    def test_grafana_finds_prometheus_and_the_dashboard(self):
        [source] = read(here("grafana", "/etc/grafana/provisioning/datasources/prometheus.yaml"))["datasources"]
        self.assertEqual((source["type"], source["url"]), ("prometheus", "http://prometheus:9090"))
        self.assertTrue(source["isDefault"])
        self.assertEqual(source["jsonData"]["timeInterval"], read(DEPLOY / "prometheus.yaml")["global"]["scrape_interval"])
        [provider] = read(here("grafana", "/etc/grafana/provisioning/dashboards/leveret.yaml"))["providers"]
        self.assertEqual(here("grafana", provider["options"]["path"]), dashboard.FILE.parent)
        home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        self.assertEqual(here("grafana", home), dashboard.FILE)

    def test_the_ports_that_it_tells_of_are_open(self):
        text = (DEPLOY / "compose.yaml").read_text()
        told = set(re.findall(r"http://localhost:(\d+)", text))
        opened = {port.split(":")[1] for service in SERVICES.values() for port in service["ports"]}
        self.assertLessEqual(told, opened)
        self.assertEqual(len(told), 4)


if __name__ == "__main__":
    unittest.main()
