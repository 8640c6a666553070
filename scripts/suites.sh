#!/usr/bin/env bash
# Install what the suites of `make test-clients` are built with, as far as it is missing and may be done: Maven and a
# compiler of Java, and the clients Bunny (Ruby) and php-amqplib. Go and node are not: what distributions have of them is
# often too old. Prints one sentence to stderr for what stays missing; its suite is left out.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

look() {
    missing=()
    command -v mvn > /dev/null || missing+=(maven)
    command -v javac > /dev/null || missing+=(default-jdk-headless)
}

provide "for the suites of other people" "RabbitMQ's Java tests will be left out" || true

look() {
    missing=()
    ruby -e "require 'bunny'" 2> /dev/null || missing+=(ruby-bunny)
    command -v php > /dev/null || missing+=(php-cli)
    [ -e /usr/share/php/PhpAmqpLib/autoload.php ] || missing+=(php-amqplib)
}

provide "for the tests that drive these AMQP clients" "its tests will be skipped"
