"""Publishes a delayed message to Leveret's default bridge with pika, and waits for it.

    pip install -r requirements.txt
    AMQP_URI=amqp://guest:guest@localhost:5672/%2f python publish_delayed.py
"""

import os
import sys
import time

import pika

QUEUE = "leveret-example-python"
DELAY_MS = 1500
PATIENCE_S = 30

uri = os.environ.get("AMQP_URI", "amqp://guest:guest@localhost:5672/%2f")
connection = pika.BlockingConnection(pika.URLParameters(uri))
channel = connection.channel()
channel.queue_declare(QUEUE, durable=True)

# With confirms, basic_publish returns when the broker has the message; with mandatory it raises where no bridge takes it.
channel.confirm_delivery()
published = time.time()
channel.basic_publish(
    exchange="delay",
    routing_key=QUEUE,
    body=b"hello",
    properties=pika.BasicProperties(headers={"x-delay": DELAY_MS}, delivery_mode=2),
    mandatory=True,
)

for method, properties, body in channel.consume(QUEUE, auto_ack=True, inactivity_timeout=PATIENCE_S):
    waited_ms = (time.time() - published) * 1000
    break
channel.queue_delete(QUEUE)
connection.close()

if method is None:
    sys.exit(f"nothing arrived within {PATIENCE_S} s")
print(f"python: {body!r} after {waited_ms:.0f} ms, x-delay {properties.headers['x-delay']}")
if waited_ms < DELAY_MS:
    sys.exit("too early")
