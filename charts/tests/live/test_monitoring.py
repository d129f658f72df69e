"""Dashboard and alerts, with a real Prometheus that scrapes replicas of Leveret under load while things break."""

import contextlib
import os
import tempfile
import time
import unittest
from pathlib import Path

import alerts
import dashboard
import scene
import stack

LIMIT = 100
# What no fault here raises: nobody sets this machine's clock.
UNSEEN = {"LeveretClockStepped"}


class Story:
    """What happened, in its order: all is well, then one fault after another, then all is well again."""

    def __init__(self, folder, installation):
        values = {**alerts.VALUES, "prometheusRule": {"enabled": True, "maxMessageBytes": scene.MAX_MESSAGE_BYTES}}
        self.groups = scene.hastened(alerts.groups(values))
        self.scene = scene.Scene(folder, installation, self.groups)
        self.prometheus = self.scene.prometheus
        self.begun = time.time()
        self.missing = {}

    def tell(self):
        one, two = self.scene.replicas
        # Longer than any wait of an alert.
        time.sleep(22)
        self.calm = self.prometheus.firing()
        with contextlib.ExitStack() as together:
            for fault in ("policy", "full_target", "unroutable", "large_messages", "hesitant_replica"):
                together.enter_context(getattr(self.scene, fault)())
            self.expect("LeveretParked", "LeveretPolicyConflict", "LeveretLargeBundles", "LeveretTargetFull", "LeveretLate")
        with self.scene.dead(two):
            self.expect("LeveretReplicaDown")
        with self.scene.broker_away():
            self.expect("LeveretBrokerUnreachable")
        with contextlib.ExitStack() as until_then:
            until_then.enter_context(self.scene.dead(one, two))
            self.expect("LeveretDown")
            # More than they take at once: when they are back, the rest waits behind an alarm.
            one.publish("orders", "order.created", "0s", count=5000).wait()
            with self.scene.memory_alarm():
                until_then.close()
                self.expect("LeveretConnectionBlocked", "LeveretNotDelivering", "LeveretNotTakingIn")
        self.after = self.quiet()
        self.ended = time.time()

    def expect(self, *names):
        """Waits until these alerts fire; which do not is for the tests to tell."""
        wanted = set(names)
        try:
            stack.eventually(lambda: wanted <= {labels["alertname"] for labels in self.prometheus.firing()}, LIMIT)
        except TimeoutError as error:
            self.missing |= {name: str(error) for name in wanted - {labels["alertname"] for labels in self.prometheus.firing()}}

    def quiet(self):
        """Waits until no alert fires, and returns what is left."""
        with contextlib.suppress(TimeoutError):
            stack.eventually(lambda: not self.prometheus.firing(), LIMIT)
        return self.prometheus.firing()

    def history(self, expr, **chosen):
        """What a query of the dashboard shows of all that time."""
        whole = f"{int(self.ended - self.begun)}s"
        filled = dashboard.filled(expr, rate_interval="5s", whole=whole, **chosen)
        return self.prometheus.query_range(filled, self.begun, self.ended, 1)


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="leveret-monitoring-", ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.story = Story(Path(folder.name), os.environ.get("BROKER", "installed"))
        cls.addClassCleanup(cls.story.scene.close)
        cls.story.tell()

    def test_nothing_fires_while_all_is_well(self):
        self.assertEqual(self.story.calm, [])

    def test_every_fault_raises_its_alert(self):
        self.assertEqual(self.story.missing, {})
        fired = {labels["alertname"] for labels, _ in self.story.history('ALERTS{alertstate="firing"}')}
        self.assertEqual({rule["alert"] for rule in self.story.groups[0]["rules"]} - fired, UNSEEN)

    def test_alerts_end_with_their_faults(self):
        self.assertEqual(self.story.after, [])

    def test_every_metric_that_is_asked_for_is_scraped(self):
        scraped = set(self.story.prometheus.api("label/__name__/values"))
        queries = [target["expr"] for _, target in dashboard.queries()]
        rules = [rule["expr"] for rule in self.story.groups[0]["rules"]]
        for expr in queries + rules:
            for series, _ in dashboard.selectors(expr):
                with self.subTest(series):
                    self.assertIn(series, scraped)

    def test_every_query_of_the_dashboard_returns_data(self):
        for panel, target in dashboard.queries():
            with self.subTest(panel["title"], query=target["refId"]):
                self.assertNotEqual(self.story.history(target["expr"]), [])

    def test_alerts_are_marked_in_the_dashboard(self):
        [marks] = dashboard.load()["annotations"]["list"]
        self.assertNotEqual(self.story.history(marks["expr"]), [])

    def test_a_choice_leaves_out_the_rest(self):
        choice = {"job": scene.JOB, "instance": self.story.scene.replicas[0].address, "bridge": "orders"}
        seen = set()
        for panel, target in dashboard.queries():
            with self.subTest(panel["title"], query=target["refId"]):
                for labels, _ in self.story.history(target["expr"], **choice):
                    shown = {name: labels[name] for name in choice if name in labels}
                    self.assertEqual(shown, {name: choice[name] for name in shown})
                    seen |= set(shown)
                self.assertEqual(self.story.history(target["expr"], namespace="elsewhere"), [])
        self.assertEqual(seen, set(choice))

    def test_variables_offer_what_there_is(self):
        offered = {name: self.offers(variable) for name, variable in dashboard.variables().items()}
        self.assertEqual(offered["namespace"], {"messaging"})
        self.assertEqual(offered["job"], {scene.JOB, scene.CLASSIC})
        self.assertEqual(len(offered["instance"]), 3)
        self.assertEqual(offered["bridge"], {"orders", "mail", "notes", "(unknown)"})

    def offers(self, variable):
        """The values that Grafana would offer."""
        match, _, label = variable["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
        series = self.story.prometheus.api("series", **{"match[]": dashboard.filled(match)}, start=self.story.begun)
        return {one[label] for one in series}


if __name__ == "__main__":
    unittest.main()
