"""The rules that the chart makes, and the tool that checks rules."""

import os
import subprocess

import chart

VALUES = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}


def groups(values):
    """The groups of rules that the chart makes."""
    objects = chart.documents(chart.succeeded(chart.of_values(values)))
    return chart.find(objects, "PrometheusRule")["spec"]["groups"]


def rules(values=VALUES):
    return groups(values)[0]["rules"]


def promtool(*arguments):
    return subprocess.run([os.environ["PROMTOOL"], *map(str, arguments)], capture_output=True, text=True)
