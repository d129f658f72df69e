"""A private broker, replicas of Leveret on it, and a Prometheus that scrapes them: started, broken and ended here. Nothing
outlives the program that uses it, however that dies."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import chart

SCRIPT = chart.ROOT / "scripts/broker-node"
LIMIT = 60


def eventually(what, limit=LIMIT):
    """Waits until a function returns something true, and returns that. What it raises while it waits counts as not yet."""
    deadline = time.monotonic() + limit
    last = None
    while time.monotonic() < deadline:
        try:
            last = None
            if found := what():
                return found
        except (OSError, KeyError, ValueError) as error:
            last = error
        time.sleep(0.2)
    raise TimeoutError(f"not within {limit} s{f': {last}' if last else ''}")


def free_port():
    return int(subprocess.run([SCRIPT, "free-port"], check=True, capture_output=True, text=True).stdout)


def request(url, method="GET", body=None, auth=None):
    """What a server answers, as text."""
    asked = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    asked.add_header("Content-Type", "application/json")
    if auth:
        asked.add_header("Authorization", f"Basic {auth}")
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return answer.read().decode()


class Process:
    """A process that ends with this one."""

    def __init__(self, command, log, **options):
        self.log = log
        with log.open("ab") as file:
            mortal = ["setpriv", "--pdeathsig", "KILL", *map(str, command)]
            self.child = subprocess.Popen(mortal, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)

    def kill(self):
        self.child.kill()
        self.child.wait()

    def is_alive(self):
        return self.child.poll() is None


class Broker:
    """A node of its own, with the management API."""

    GUEST = "Z3Vlc3Q6Z3Vlc3Q="

    def __init__(self, folder, installation, conf):
        self.folder = folder
        folder.mkdir()
        (folder / "extra.conf").write_text(conf)
        # It kills the node when its standard input ends, which is when this process does.
        self.guard = subprocess.Popen([SCRIPT, "guard", folder], stdin=subprocess.PIPE)
        self.installation = installation
        self.start()
        settings = dict(line.split("=", 1) for line in (folder / "node.env").read_text().splitlines())
        self.uri, self.url = settings["uri"], f"http://127.0.0.1:{settings['management_port']}"

    def script(self, command, *arguments):
        subprocess.run([SCRIPT, command, self.folder, *arguments], check=True, stdout=subprocess.DEVNULL)

    def start(self):
        self.script("start", self.installation)

    def kill(self):
        self.script("kill")

    def ctl(self, *arguments):
        self.script("ctl", *arguments)

    def close(self):
        self.guard.stdin.close()
        self.guard.wait()

    def api(self, method, path, body=None):
        return request(f"{self.url}/api/{path}", method, body, self.GUEST)

    def declare(self, what, name, **definition):
        self.api("PUT", f"{what}/%2F/{name}", definition)

    def bind(self, exchange, queue, key):
        self.api("POST", f"bindings/%2F/e/{exchange}/q/{queue}", {"routing_key": key})


class Replica:
    """A Leveret that runs."""

    def __init__(self, folder, name, config):
        self.name = name
        self.config = folder / f"{name}.yaml"
        self.config.write_text(json.dumps(config))
        self.log = folder / f"{name}.log"
        self.address = f"127.0.0.1:{free_port()}"
        self.start()

    def environment(self):
        return {"PATH": os.environ["PATH"], "LEVERET_CONFIG": str(self.config), "LEVERET_ADMIN__LISTEN": self.address}

    def start(self):
        self.process = Process([os.environ["LEVERET"], "run"], self.log, env=self.environment())

    def wait_until_ready(self):
        def ready():
            if not self.process.is_alive():
                raise AssertionError(f"{self.name} has ended:\n{self.log.read_text()[-2000:]}")
            return request(f"http://{self.address}/readyz")

        eventually(ready)

    def kill(self):
        self.process.kill()

    def publish(self, bridge, key, delay, count=1, **options):
        """The program that publishes, with this replica's configuration."""
        more = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        command = [os.environ["LEVERET"], "publish", "--bridge", bridge, "-k", key, "--delay", delay, "--count", str(count), *more]
        return subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Prometheus:
    """One that scrapes every second."""

    def __init__(self, folder, jobs, groups):
        self.url = f"http://127.0.0.1:{free_port()}"
        folder.mkdir()
        (folder / "rules.yaml").write_text(json.dumps({"groups": groups}))
        (folder / "prometheus.yaml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [
                {"job_name": job, "static_configs": [
                    {"targets": [replica.address], "labels": {"namespace": "messaging", "pod": replica.name}}
                    for replica in replicas]}
                for job, replicas in jobs.items()],
        }))
        self.process = Process(
            [os.environ["PROMETHEUS"], f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn"], folder / "prometheus.log")
        eventually(lambda: request(f"{self.url}/-/ready"))

    def api(self, path, **parameters):
        answer = json.loads(request(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"))
        return answer["data"]

    def query(self, expr):
        return self.api("query", query=expr)["result"]

    def query_range(self, expr, start, end, step):
        """Series that have a number at any time: their labels, and times with numbers."""
        found = self.api("query_range", query=expr, start=start, end=end, step=step)["result"]
        series = [(one["metric"], [(at, float(value)) for at, value in one["values"] if value != "NaN"]) for one in found]
        return [(labels, points) for labels, points in series if points]

    def firing(self):
        """The labels of each alert that fires at this moment."""
        return [alert["labels"] for alert in self.api("alerts")["alerts"] if alert["state"] == "firing"]
