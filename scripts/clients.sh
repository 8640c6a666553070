#!/usr/bin/env bash
# Install the distribution's AMQP clients that some tests drive, as far as they are missing and it may be done.
# Prints one sentence to stderr for each that stays missing; its tests are skipped. With --no-install it only looks.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

look() {
    missing=()
    command -v amqp-publish > /dev/null || missing+=(amqp-tools)
    [ -e /usr/share/java/amqp-client.jar ] || missing+=(librabbitmq-client-java)
}

provide "for the tests that drive these AMQP clients" "its tests will be skipped" "${1:-}"
