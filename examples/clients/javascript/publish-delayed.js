// Publishes a delayed message to Leveret's default bridge with amqplib, and waits for it.
//
//     npm install
//     AMQP_URI=amqp://guest:guest@localhost:5672/%2f node publish-delayed.js

const amqp = require('amqplib');

const QUEUE = 'leveret-example-javascript';
const DELAY_MS = 1500;
const PATIENCE_MS = 30_000;

async function main() {
  const connection = await amqp.connect(process.env.AMQP_URI ?? 'amqp://guest:guest@localhost:5672/%2f');
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(QUEUE, { durable: true });
  const arrival = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('nothing arrived')), PATIENCE_MS);
    const onMessage = (message) => {
      clearTimeout(timer);
      resolve(message);
    };
    channel.consume(QUEUE, onMessage, { noAck: true }).catch(reject);
  });

  // With mandatory, a message that no bridge takes comes back before its confirm.
  channel.on('return', () => console.error('no exchange binding took the message'));
  const published = Date.now();
  channel.publish('delay', QUEUE, Buffer.from('hello'), {
    headers: { 'x-delay': DELAY_MS },
    persistent: true,
    mandatory: true,
  });
  // Resolves when the broker has the message.
  await channel.waitForConfirms();

  const message = await arrival;
  const waited = Date.now() - published;
  await channel.deleteQueue(QUEUE);
  await connection.close();
  console.log(
    `javascript: '${message.content}' after ${waited} ms, x-delay ${message.properties.headers['x-delay']}`,
  );
  if (waited < DELAY_MS) throw new Error('too early');
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
