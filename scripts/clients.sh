#!/usr/bin/env bash
# Install the distribution's AMQP clients that some tests drive, as far as they are missing and it may be done.
# Prints one sentence to stderr for each that stays missing; its tests are skipped. With --no-install it only looks.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

missing=()
look() {
    missing=()
    command -v amqp-publish > /dev/null || missing+=(amqp-tools)
    [ -e /usr/share/java/amqp-client.jar ] || missing+=(librabbitmq-client-java)
}

look
if [ "${#missing[@]}" -gt 0 ] && [ "${1:-}" != "--no-install" ] && may_install; then
    echo "Installing the AMQP clients ${missing[*]} for the tests." >&2
    as_root apt-get update -q >&2 || true
    for package in "${missing[@]}"; do
        install_packages "$package" || true
    done
    look
fi
for package in "${missing[@]:+${missing[@]}}"; do
    echo "$package is not installed: its tests will be skipped (on Debian: apt-get install $package)." >&2
done
[ "${#missing[@]}" -eq 0 ]
