#!/usr/bin/env bash
# Install what the suites of `make test-clients` are built with, as far as it is missing and may be done: Maven and a
# compiler of Java. Go and node are not: what distributions have of them is often too old. Prints one sentence to stderr
# for what stays missing; its suite is left out.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

look() {
    missing=()
    command -v mvn > /dev/null || missing+=(maven)
    command -v javac > /dev/null || missing+=(default-jdk-headless)
}

provide "for the suites of other people" "RabbitMQ's Java tests will be left out"
