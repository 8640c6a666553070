#!/usr/bin/env bash
# Print the JAVA_HOME of a JDK that can run Spark (17 or later), installing the distribution's if there is none.
# Prints one sentence to stderr and fails if there is none and none can be installed.
# With --no-install only what is already there counts.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

oldest=17

# The major version of the java in a home directory, or 0.
major() {
    local version
    version=$("$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
    echo "${version:-0}"
}

# Print the first home that is new enough: the one named by JAVA_HOME, java on the path, then Debian's places.
find_home() {
    local homes=() home on_path
    [ -z "${JAVA_HOME:-}" ] || homes+=("$JAVA_HOME")
    on_path=$(command -v java || true)
    [ -z "$on_path" ] || homes+=("$(dirname "$(dirname "$(readlink -f "$on_path")")")")
    for home in /usr/lib/jvm/*; do
        [ ! -d "$home" ] || homes+=("$home")
    done
    for home in "${homes[@]:+${homes[@]}}"; do
        if [ -x "$home/bin/java" ] && [ "$(major "$home")" -ge "$oldest" ]; then
            echo "$home"
            return 0
        fi
    done
    return 1
}

install_package() {
    may_install || return 1
    echo "No JDK $oldest or later was found: installing the distribution's headless package." >&2
    as_root apt-get update -q >&2 || true
    for package in openjdk-17-jre-headless default-jre-headless; do
        if install_packages "$package"; then
            return 0
        fi
    done
    return 1
}

find_home && exit 0
if [ "${1:-}" != "--no-install" ] && install_package && find_home; then
    exit 0
fi
echo "Spark needs a JDK $oldest or later: install one (on Debian: apt-get install openjdk-17-jre-headless)" \
    "or set JAVA_HOME." >&2
exit 1
