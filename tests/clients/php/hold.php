<?php
// php-amqplib as a driver: see tests/clients/drivers/common.py. Usage: php hold.php URL HELD BESIDE COUNT SIZE WAY
require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPExceptionInterface;
use PhpAmqpLib\Message\AMQPMessage;

const WINDOW = 50; // Publishes that may be unconfirmed at once.

function tell(string $kind, $value): void
{
    fwrite(STDOUT, json_encode([$kind => $value]) . "\n"); // One write, as a fork of it writes, too.
}

function connect(string $url): AMQPStreamConnection
{
    $parts = parse_url($url);
    return new AMQPStreamConnection($parts['host'], $parts['port'], $parts['user'], $parts['pass']);
}

function consume(AMQPChannel $channel, string $queue): void
{
    $channel->basic_consume($queue, '', false, false, false, false, function (AMQPMessage $message): void {
        $message->ack();
        tell('received', (int) $message->getBody());
    });
}

// Handle what has come; wait a moment for it, if nothing has.
function serve(AMQPStreamConnection $connection, AMQPChannel $channel): void
{
    $connection->select(0, 50000);
    while ($channel->hasPendingMethods() || $connection->select(0, 0) > 0) {
        $channel->wait(null, true);
    }
}

function has_ended(): bool
{
    $read = [STDIN];
    $none = null;
    return stream_select($read, $none, $none, 0) > 0;
}

function publish(AMQPStreamConnection $connection, AMQPChannel $channel, array $words): void
{
    [, , $held, , $count, $size, $way] = $words;
    $answered = 0;
    if ($way === 'confirms') {
        // Delivery tags count from 1, messages from 0.
        $channel->set_ack_handler(function (AMQPMessage $message) use (&$answered): void {
            tell('confirmed', $message->getDeliveryTag() - 1);
            $answered++;
        });
        $channel->set_nack_handler(function (AMQPMessage $message) use (&$answered): void {
            tell('refused', $message->getDeliveryTag() - 1);
            $answered++;
        });
        $channel->confirm_select();
    }
    for ($number = 0; $number < $count; $number++) {
        while ($way === 'confirms' && $number - $answered >= WINDOW) {
            serve($connection, $channel);
        }
        $channel->basic_publish(new AMQPMessage(str_pad((string) $number, (int) $size)), '', $held);
    }
    while ($way === 'confirms' && $answered < $count) {
        serve($connection, $channel);
    }
    tell('done', true);
}

[, $url, $held, $beside, , , $way] = $argv;
tell('version', PhpAmqpLib\Package::VERSION);
$child = $way === 'plain' ? pcntl_fork() : -1;
if ($child === 0) { // There are no threads: the consumer of a publisher that waits in its socket is a process.
    $consuming = connect($url);
    consume($channel = $consuming->channel(), $beside);
    while (!has_ended()) {
        serve($consuming, $channel);
    }
    $consuming->close();
    exit(0);
}
$connection = connect($url);
$channel = $connection->channel();
if ($way === 'confirms') {
    consume($channel, $beside);
}
try {
    publish($connection, $channel, $argv);
    while (!has_ended()) {
        serve($connection, $channel);
    }
    $channel->queue_declare($held, true); // A refusal comes before the answer.
    $connection->close();
} catch (AMQPExceptionInterface $failure) {
    tell('failed', $failure->getMessage());
    stream_get_contents(STDIN);
}
if ($child > 0) {
    pcntl_waitpid($child, $status);
}
