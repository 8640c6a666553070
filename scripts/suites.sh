#!/usr/bin/env bash
# Install what the suites of `make test-clients` are built with, as far as it is missing and may be done: Maven and a
# compiler of Java. Go and node are not: what distributions have of them is often too old. Prints one sentence to stderr
# for what stays missing; its suite is left out.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

missing=()
look() {
    missing=()
    command -v mvn > /dev/null || missing+=(maven)
    command -v javac > /dev/null || missing+=(default-jdk-headless)
}

look
if [ "${#missing[@]}" -gt 0 ] && may_install; then
    echo "Installing ${missing[*]} for the suites of other people." >&2
    as_root apt-get update -q >&2 || true
    for package in "${missing[@]}"; do
        install_packages "$package" || true
    done
    look
fi
for package in "${missing[@]:+${missing[@]}}"; do
    echo "$package is not installed: RabbitMQ's Java tests will be left out (on Debian: apt-get install $package)." >&2
done
[ "${#missing[@]}" -eq 0 ]
