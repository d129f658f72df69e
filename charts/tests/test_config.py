"""What the chart gives a container is a configuration that Leveret takes: the files, the variables, what is in secrets."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

import chart



def certificate_and_key():
    """A certificate that vouches for itself, and its key, as PEM."""
    paths = [Path(tempfile.mkdtemp(dir=chart.HOME)) / name for name in ["certificate.pem", "key.pem"]]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=leveret", "-out", paths[0], "-keyout", paths[1]],
        check=True, capture_output=True,
    )
    return [path.read_text() for path in paths]


CERTIFICATE, KEY = certificate_and_key()

# What the secrets that are there already hold, by key.
SECRETS = {
    "uri": "amqp://leveret:secret@rabbitmq:5672/%2f",
    "connection_string": "amqp://leveret:secret@rabbitmq:5672/%2f",
    "username": "leveret",
    "password": "secret",
    "user": "leveret",
    "pass": "secret",
    "host": "rabbitmq.messaging.svc",
    "port": "5672",
    "ca.crt": CERTIFICATE,
    "bundle.pem": CERTIFICATE,
    "tls.crt": CERTIFICATE,
    "tls.key": KEY,
    "of-2027": "bGV2ZXJldCBkZWxheXMgbWVzc2FnZXMgb2YgMjAyNyE=",
    "of-2026": "bGV2ZXJldCBkZWxheXMgbWVzc2FnZXMgb2YgMjAyNiE=",
    "leveret.yaml": (chart.ROOT / "config/leveret.yaml").read_text(),
}


def leveret_container(objects):
    """The container that runs Leveret, and its pod."""
    specs = [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "Deployment"]
    for spec in specs:
        for container in spec.get("initContainers") or []:
            if container["name"] == "leveret":
                return container, spec
        for container in spec["containers"]:
            if container["name"] == "leveret":
                return container, spec
    raise AssertionError("no container of Leveret's")


def mount(container, spec, objects, root):
    """Lays the files of the container's volumes below a folder."""
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    made = {one["metadata"]["name"]: one.get("data") or one.get("stringData")
            for one in objects if one["kind"] in ("ConfigMap", "Secret")}
    for place in container["volumeMounts"]:
        volume = volumes[place["name"]]
        source = volume.get("configMap") or volume.get("secret")
        if source is None:
            continue
        content = made.get(source.get("name") or source["secretName"], SECRETS)
        items = source.get("items") or [{"key": key, "path": key} for key in content]
        folder = root / place["mountPath"].lstrip("/")
        folder.mkdir(parents=True)
        for item in items:
            (folder / item["path"]).write_text(content[item["key"]])


def variables(container, root):
    """The container's environment, as Kubernetes makes it; paths of mounts lead below the folder."""
    env = {}
    for variable in container["env"]:
        if "valueFrom" in variable:
            value = SECRETS[variable["valueFrom"]["secretKeyRef"]["key"]]
        else:
            value = re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], variable["value"])
        assert variable["name"] not in env, f"{variable['name']} is there twice"
        env[variable["name"]] = value
    paths = [place["mountPath"] for place in container["volumeMounts"]]
    return {name: re.sub("|".join(paths), lambda path: f"{root}{path[0]}", value) for name, value in env.items()}


def run(command, objects):
    """Runs a command of Leveret's as the container would."""
    container, spec = leveret_container(objects)
    root = Path(tempfile.mkdtemp(dir=chart.HOME))
    mount(container, spec, objects, root)
    return subprocess.run(
        [os.environ["LEVERET"], *command], env=variables(container, root), capture_output=True, text=True
    )


def effective(objects):
    """The configuration in effect, every key."""
    ran = run(["print", "config"], objects)
    if ran.returncode:
        raise AssertionError(ran.stderr)
    return yaml.safe_load(ran.stdout)


class Config(unittest.TestCase):
    def test_leveret_takes_what_every_case_renders(self):
        for case in chart.CASES:
            if case == "sidecar":
                continue
            with self.subTest(case):
                self.check(chart.documents(chart.rendered(case)))

    def test_leveret_takes_what_a_sidecar_gets(self):
        for native in ["true", "false"]:
            text = chart.succeeded(chart.template("--set", f"leveret.sidecar.native={native}", chart=chart.shop()))
            with self.subTest(native=native):
                self.check(chart.documents(text))

    def check(self, objects):
        ran = run(["validate"], objects)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("cannot read", ran.stderr)

    def test_the_configuration_arrives_whole(self):
        found = effective(chart.documents(chart.rendered("cluster-operator")))
        given = yaml.safe_load(chart.CASES["cluster-operator"].read_text())["config"]
        self.assertEqual(found["amqp"]["hosts"], ["rabbitmq.messaging.svc:5672"])
        self.assertEqual([bridge["name"] for bridge in found["bridges"]], ["orders", "mail"])
        self.assertEqual(found["bridges"][1]["target"], given["bridges"][1]["target"])
        self.assertEqual(found["management"]["url"], given["management"]["url"])
        self.assertEqual(found["hold"]["max_bytes"], "64MiB")

    def test_text_arrives_to_the_letter(self):
        given = yaml.safe_load(chart.CASES["config-text"].read_text())["config"]
        config = chart.find(chart.documents(chart.rendered("config-text")), "ConfigMap")
        self.assertEqual(config["data"]["leveret.yaml"].strip(), given.strip())

    def test_it_agrees_with_the_pod(self):
        objects = chart.documents(chart.rendered("extras"))
        container, spec = leveret_container(objects)
        found = effective(objects)
        self.assertEqual(found["admin"]["listen"], "[::]:9999")
        self.assertEqual(container["ports"], [{"name": "leveret-admin", "containerPort": 9999}])
        self.assertEqual((found["shutdown"]["grace"], spec["terminationGracePeriodSeconds"]), ("1m", 65))

    def test_what_leveret_refuses_is_seen(self):
        objects = chart.documents(chart.rendered("config-text"))
        chart.find(objects, "ConfigMap")["data"]["leveret.yaml"] = "namespce: delays"
        self.assertEqual(run(["validate"], objects).returncode, 78)

    def test_what_the_readme_shows_works(self):
        shown = re.findall(r"```yaml\n(# values\.yaml\n.*?)```", (chart.CHART / "README.md").read_text(), re.S)
        self.assertGreater(len(shown), 1)
        for values in shown:
            with self.subTest(values=values):
                text = chart.succeeded(chart.of_values(yaml.safe_load(values)))
                self.check(chart.documents(text))
