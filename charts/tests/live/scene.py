"""What is watched: two replicas of Leveret with two bridges and one with classic queues, on a broker, under load, before a
Prometheus. Each fault is a context that it lasts for."""

import contextlib
import itertools
import json
import os
import re
import signal
import threading
import time

import stack

# Small enough to come near it with a message that is quick to publish.
MAX_MESSAGE_BYTES = 1 << 20
JOB, CLASSIC = "delays-leveret", "notes-leveret"
# Both in seconds: how often the load publishes, and after how long its messages are due.
EVERY = 0.5
DELAYS = [0, 0.4, 1.5, 2, 3, 5, 8, 13, 21]


def hastened(groups):
    """The rules with a minute of theirs in two seconds: how long something lasts before it is an alert, and over which time it
    is reckoned. What is counted or measured is left as it is."""
    text = re.sub(r'(?<=[\["])(\d+)m(?=[\]"])', lambda minutes: f"{2 * int(minutes[1])}s", json.dumps(groups))
    return [group | {"interval": "1s"} for group in json.loads(text)]


class Scene:
    """All of it, until it is closed."""

    def __init__(self, folder, installation, groups):
        self.folder = folder
        self.things = []
        try:
            self._build(installation, groups)
        except BaseException:
            self.close()
            raise

    def _build(self, installation, groups):
        folder = self.folder
        self.broker = self._with(stack.Broker(folder / "broker", installation, f"max_message_size = {MAX_MESSAGE_BYTES}\n"))
        for exchange in ("orders", "mail"):
            self.broker.declare("exchanges", exchange, type="topic", durable=True)
        # Nobody consumes: what is old makes room.
        ring = {"x-max-length": 1000, "x-overflow": "drop-head"}
        self.queue("orders", "order.#", "orders", **ring)
        self.queue("mail", "mail.#", "mail", **ring)
        self.queue("mail", "full.#", "full", **{"x-max-length": 1, "x-overflow": "reject-publish"})
        self.replicas = [self._with(stack.Replica(folder, name, self.config())) for name in ("delays-a", "delays-b")]
        self.notes = self._with(stack.Replica(folder, "notes-a", self.classic_config()))
        for replica in (*self.replicas, self.notes):
            replica.wait_until_ready()
        self.prometheus = self._with(
            stack.Prometheus(folder / "prometheus", {JOB: self.replicas, CLASSIC: [self.notes]}, groups))
        self.load = self._with(Load(self))

    def _with(self, thing):
        self.things.append(thing)
        return thing

    def close(self):
        for thing in reversed(self.things):
            with contextlib.suppress(Exception):
                (thing.close if hasattr(thing, "close") else thing.kill)()

    def queue(self, exchange, key, name, **arguments):
        self.broker.declare("queues", name, durable=True, arguments=arguments)
        self.broker.bind(exchange, name, key)

    def config(self):
        return {
            "amqp": {"uri": self.broker.uri},
            "management": {"url": self.broker.url, "interval": "1s"},
            "bridges": [
                {"name": "orders", "entry": {"exchange": "orders.delayed"}, "target": {"exchange": "orders"}},
                {"name": "mail", "entry": {"exchange": "mail.delayed"}, "target": {"exchange": "mail"}, "unroutable": "drop"},
            ],
        }

    def classic_config(self):
        return {
            "amqp": {"uri": self.broker.uri},
            "management": {"url": self.broker.url, "interval": "1s"},
            "namespace": "notes",
            "queue_type": "classic",
            "bridges": [{"name": "notes", "entry": {"exchange": "delayed.notes"}, "target": {"exchange": "mail"}}],
        }

    # --- faults

    @contextlib.contextmanager
    def policy(self):
        """Somebody's policy takes one of Leveret's queues with it."""
        self.broker.declare("policies", "careless", pattern="^leveret\\.level\\.4s$", definition={"expires": 3_600_000},
                            **{"apply-to": "queues"})
        yield
        self.broker.api("DELETE", "policies/%2F/careless")

    @contextlib.contextmanager
    def full_target(self):
        """Messages go on coming for a queue that is full."""
        with self.load.also("mail", "full.box", "0s"):
            yield

    @contextlib.contextmanager
    def unroutable(self):
        """A publisher has misspelt its routing key, and another one its delay."""
        self.load.publish("orders", "oder.created", "1s", count=5)
        self.load.publish("orders", "order.created", "1s", count=2, header="x-deliver-at=soon")
        self.load.publish("mail", "mial.sent", "1s", count=3)
        yield

    @contextlib.contextmanager
    def large_messages(self):
        """A publisher sends messages of nearly the size that the broker still takes."""
        body = self.folder / "large"
        body.write_bytes(os.urandom(MAX_MESSAGE_BYTES * 7 // 8))
        with self.load.also("orders", "order.large", "2s", every=3, body_file=str(body)):
            yield

    @contextlib.contextmanager
    def hesitant_replica(self):
        """A replica gets little of its processor: it stands still most of the time."""
        process = self.replicas[0].process.child
        over = threading.Event()

        def hesitate():
            while not over.is_set():
                process.send_signal(signal.SIGSTOP)
                time.sleep(1.8)
                process.send_signal(signal.SIGCONT)
                time.sleep(0.4)

        thread = threading.Thread(target=hesitate)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextlib.contextmanager
    def memory_alarm(self):
        """The broker is short of memory, and lets nobody publish."""
        self.broker.ctl("set_vm_memory_high_watermark", "0.000001")
        yield
        self.broker.ctl("set_vm_memory_high_watermark", "0.6")

    @contextlib.contextmanager
    def broker_away(self):
        """The broker crashes."""
        self.broker.kill()
        yield
        self.broker.start()
        for replica in (*self.replicas, self.notes):
            replica.wait_until_ready()

    @contextlib.contextmanager
    def dead(self, *replicas):
        """Replicas crash."""
        for replica in replicas:
            replica.kill()
        yield
        for replica in replicas:
            replica.start()
        for replica in replicas:
            replica.wait_until_ready()


class Load:
    """Publishes messages with all kinds of delays, until it is closed."""

    def __init__(self, scene):
        self.scene = scene
        self.publishers = []
        self.extra = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        delays = (f"{int(seconds * 1000)}ms" for seconds in itertools.cycle(DELAYS))
        for tick in itertools.count():
            if self.over.wait(EVERY):
                return
            self.publishers = [publisher for publisher in self.publishers if publisher.poll() is None]
            # While the broker takes nothing, publishers wait.
            if len(self.publishers) > 20:
                continue
            self.publish("orders", "order.created", next(delays), count=40, body="x" * 300)
            self.publish("mail", "mail.sent", next(delays), count=10, body="x" * 2000)
            self.publish("notes", "mail.note", "5s", count=2)
            for arguments, options, every in list(self.extra):
                if tick % every == 0:
                    self.publish(*arguments, **options)

    def publish(self, bridge, key, delay, **options):
        """Publishes as an application does, by a program that is left to itself."""
        replica = self.scene.notes if bridge == "notes" else self.scene.replicas[0]
        publisher = replica.publish(bridge, key, delay, **options)
        self.publishers.append(publisher)
        return publisher

    @contextlib.contextmanager
    def also(self, *arguments, every=1, **options):
        """Publishes something else too, at each so manieth time."""
        entry = (arguments, options, every)
        self.extra.append(entry)
        try:
            yield
        finally:
            self.extra.remove(entry)

    def close(self):
        self.over.set()
        self.thread.join()
        for publisher in self.publishers:
            publisher.kill()
            publisher.wait()
