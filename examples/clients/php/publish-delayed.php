<?php
// Publishes a delayed message to Leveret's default bridge with php-amqplib, and waits for it.
//
//     composer install        (or: apt-get install php-cli php-amqplib)
//     AMQP_URI=amqp://guest:guest@localhost:5672/%2f php publish-delayed.php

declare(strict_types=1);

$installed = is_file(__DIR__ . '/vendor/autoload.php') ? __DIR__ . '/vendor/autoload.php' : 'PhpAmqpLib/autoload.php';
require_once $installed;

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const QUEUE = 'leveret-example-php';
const DELAY_MS = 1500;
const PATIENCE_S = 30;

$uri = parse_url(getenv('AMQP_URI') ?: 'amqp://guest:guest@localhost:5672/%2f');
$connection = new AMQPStreamConnection(
    $uri['host'],
    $uri['port'] ?? 5672,
    rawurldecode($uri['user'] ?? 'guest'),
    rawurldecode($uri['pass'] ?? 'guest'),
    isset($uri['path']) ? rawurldecode(substr($uri['path'], 1)) : '/'
);
$channel = $connection->channel();
$channel->queue_declare(QUEUE, false, true, false, false);

// With mandatory, a message that no bridge takes comes back.
$channel->confirm_select();
$channel->set_return_listener(fn (int $code, string $text) => fwrite(STDERR, "no bridge took the message: $text\n"));
$published = microtime(true);
$message = new AMQPMessage('hello', [
    'application_headers' => new AMQPTable(['x-delay' => DELAY_MS]),
    'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
]);
$mandatory = true;
$channel->basic_publish($message, 'delay', QUEUE, $mandatory);
// Returns when the broker has the message.
$channel->wait_for_pending_acks_returns(PATIENCE_S);

$arrived = null;
$channel->basic_consume(QUEUE, '', false, true, false, false, function (AMQPMessage $message) use (&$arrived) {
    $arrived = $message;
});
while ($arrived === null) {
    $channel->wait(null, false, PATIENCE_S);
}
$waited_ms = (microtime(true) - $published) * 1000;
$channel->queue_delete(QUEUE);
$connection->close();

$headers = $arrived->get('application_headers')->getNativeData();
printf("php: '%s' after %.0f ms, x-delay %d\n", $arrived->getBody(), $waited_ms, $headers['x-delay']);
exit($waited_ms < DELAY_MS ? 1 : 0);
