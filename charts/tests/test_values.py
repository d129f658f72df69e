"""Wrong values are refused, with a message that says what to do; risky ones are warned of."""

import unittest

import yaml

import chart

URI = {"uriSecret": {"name": "rabbitmq-uri"}}

# Values, and a part of the answer to each.
REFUSED = [
    ({"replica": 2}, "additional properties 'replica' not allowed"),
    ({"replicas": "two"}, "at '/replicas': got string, want integer"),
    ({"replicas": -1}, "at '/replicas': minimum: got -1, want 0"),
    ({"mode": "daemon"}, "at '/mode': value must be one of 'standalone', 'sidecar'"),
    ({"amqp": {"url": "amqp://rabbit"}}, "at '/amqp': additional properties 'url' not allowed"),
    ({"amqp": {"uri": "http://rabbit"}}, "at '/amqp/uri'"),
    ({"image": {"digest": "sha256:abc"}}, "at '/image/digest'"),
    ({"admin": {"address": "localhost"}}, "at '/admin/address'"),
    ({"admin": {"port": 70000}}, "at '/admin/port'"),
    ({"serviceMonitor": {"intervall": "5s"}}, "at '/serviceMonitor': additional properties 'intervall' not allowed"),
    ({"serviceMonitor": {"interval": "5 s"}}, "at '/serviceMonitor/interval'"),
    ({"podMonitor": {"selector": {}}}, "at '/podMonitor': additional properties 'selector' not allowed"),
    ({"prometheusRule": {"disabled": ["LeveretEarly"]}}, "at '/prometheusRule/disabled/0'"),
    ({"prometheusRule": {"latenessSeconds": 60}}, "at '/prometheusRule/latenessSeconds'"),
    ({"livenessProbe": {"httpGet": {"path": "/"}}}, "at '/livenessProbe': additional properties 'httpGet' not allowed"),
    ({"keda": {"enabled": True, "minReplicas": 0}}, "at '/keda/minReplicas'"),
    # What Leveret itself would refuse.
    ({"config": {"bridgs": []}}, "at '/config': additional properties 'bridgs' not allowed"),
    ({"config": {"queue_type": "fast"}}, "at '/config/queue_type': value must be one of 'quorum', 'classic'"),
    ({"config": {"bridges": [{"name": "a"}]}}, "at '/config/bridges/0': missing property 'entry'"),
    ({"config": {"max_delay": "long"}}, "at '/config/max_delay'"),
    ({"config": []}, "at '/config': got array, want"),
    ({"config": "just text"}, "config is not a map in YAML"),
    # Contradictions.
    ({"config": {"admin": {"listen": "off"}}}, "config.admin: set admin.address and admin.port instead"),
    ({"config": "shutdown: { grace: 1m }"}, "config.shutdown: set terminationGracePeriodSeconds instead"),
    ({"config": {"log": {}}, "existingConfig": "a"}, "config and existingConfig are both given"),
    ({"amqp": {"uri": "amqp://a", **URI}}, "amqp.uri and amqp.uriSecret say how to connect: give one of them"),
    ({"amqp": {"credentialsSecret": {"name": "a"}, **URI}}, "amqp.uriSecret and amqp.credentialsSecret say"),
    ({"amqp": {"hosts": ["a"], **URI}}, "amqp.uriSecret and amqp.hosts say"),
    ({"amqp": {"vhost": "a", **URI}}, "amqp.vhost goes with amqp.credentialsSecret or amqp.hosts"),
    ({"amqp": {"tls": {"enabled": True}}}, "amqp.tls.enabled goes with"),
    ({"amqp": {"tls": {"ca": {"secretName": "a", "configMapName": "b"}}}}, "amqp.tls.ca has both"),
    ({"amqp": {"tls": {"external": True}}}, "amqp.tls.external needs amqp.tls.clientCertSecret"),
    ({"bundleKeys": {"secretName": "a"}}, "bundleKeys.secretName needs bundleKeys.keys"),
    ({"autoscaling": {"enabled": True}, "keda": {"enabled": True}}, "two autoscalers would fight"),
    ({"keda": {"enabled": True}}, "keda.enabled needs keda.triggers"),
    ({"podDisruptionBudget": {"maxUnavailable": ""}}, "podDisruptionBudget needs maxUnavailable or minAvailable"),
    ({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "every pod would be scraped twice"),
    ({"serviceMonitor": {"enabled": True}, "service": {"enabled": False}}, "serviceMonitor.enabled needs service.enabled"),
    ({"prometheusRule": {"enabled": True}}, "prometheusRule.enabled needs serviceMonitor, podMonitor or"),
    ({"mode": "sidecar", "autoscaling": {"enabled": True}}, "autoscaling.enabled with mode sidecar"),
    ({"mode": "sidecar", "networkPolicy": {"enabled": True}}, "networkPolicy.enabled with mode sidecar"),
    ({"mode": "sidecar", "serviceMonitor": {"enabled": True}}, "there is no Service; enable podMonitor"),
]

# Values, and the warning that goes with each.
RISKY = [
    ({}, "No broker is configured"),
    ({}, "image.repository is `leveret`"),
    ({}, "Policies are not audited"),
    ({"amqp": {"uri": "amqp://a:b@c"}}, "amqp.uri is in the release's values"),
    ({"config": {"amqp": {"uri": "amqp://a:b@c"}}}, "config holds a password, in a ConfigMap"),
    ({"config": {"amqp": {"hosts": ["a"], "username": "b", "password": "c"}}}, "config holds a password, in a ConfigMap"),
    ({"config": "queue_type: classic"}, "queue_type classic is not replicated"),
    ({"replicas": 1}, "One replica"),
    ({"replicas": 0}, "replicas is 0: nothing is delivered"),
    ({"podDisruptionBudget": {"minAvailable": 1}}, "podDisruptionBudget.minAvailable can forbid"),
    ({"terminationGracePeriodSeconds": 10}, "terminationGracePeriodSeconds is 10"),
    ({"image": {"tag": "latest"}}, "image.tag is latest"),
    ({"mode": "sidecar", "sidecar": {"readiness": True}}, "sidecar.readiness"),
]

SAFE = {
    "image": {"registry": "registry.example.com"},
    "amqp": {"credentialsSecret": {"name": "rabbitmq-default-user"}},
    "config": {
        "bridges": [{"name": "orders", "entry": {"exchange": "orders.delayed"}}],
        "management": {"url": "http://rabbitmq:15672"},
    },
}


def notes(values):
    """What `helm install` says at the end."""
    text = yaml.safe_dump(values)
    arguments = ["--namespace", "messaging", "--dry-run=client", "--values", "-"]
    said = chart.succeeded(chart.helm("install", "delays", chart.CHART, *arguments, stdin=text))
    return said.partition("\nNOTES:\n")[2]


class Values(unittest.TestCase):
    def test_what_is_wrong_is_refused(self):
        for values, answer in REFUSED:
            with self.subTest(values=values):
                ran = chart.of_values(values)
                self.assertNotEqual(ran.returncode, 0)
                self.assertIn(answer, ran.stderr)

    def test_all_contradictions_are_told_at_once(self):
        values = {"autoscaling": {"enabled": True}, "keda": {"enabled": True}, "bundleKeys": {"secretName": "a"}}
        ran = chart.of_values(values)
        self.assertEqual(ran.stderr.count("\n- "), 3, ran.stderr)

    def test_global_values_of_others_are_let_through(self):
        chart.succeeded(chart.of_values({"global": {"storageClass": "fast", "other": {"a": [1]}}}))

    def test_an_old_kubernetes_is_refused(self):
        ran = chart.template("--kube-version", "1.28")
        self.assertIn("kubeVersion: >=1.29.0-0", ran.stderr)

    def test_risks_are_warned_of(self):
        for values, warning in RISKY:
            with self.subTest(values=values):
                self.assertIn(f"WARNING: {warning}", notes(values))

    def test_the_notes_say_what_to_do_next(self):
        said = notes(SAFE)
        self.assertNotIn("WARNING", said)
        self.assertIn("rollout status deployment/delays-leveret", said)
        self.assertIn("helm --namespace messaging test delays", said)
        self.assertIn("Publish to the exchange `orders.delayed`", said)

    def test_the_notes_of_a_sidecar_name_what_to_include(self):
        said = notes({**SAFE, "mode": "sidecar"})
        for name in ["labels", "annotations", "initContainers", "volumes"]:
            self.assertIn(f"leveret.sidecar.{name}", said)
        self.assertNotIn("leveret.sidecar.containers", said)
