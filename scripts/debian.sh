# To be sourced: installing packages of the distribution, where that may be done without asking anybody.

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    command -v apt-get > /dev/null || return 1
    [ "$(id -u)" -eq 0 ] || { command -v sudo > /dev/null && sudo -n true 2> /dev/null; }
}

# Install these packages; what is said goes to stderr.
install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
}

# Install what is missing, as far as that may be done, and print one sentence to stderr for each that stays missing.
# The caller's function `look` puts the names of the packages that are missing into the array `missing`. It fails if
# some stay missing. Usage: provide PURPOSE LOSS [--no-install], both parts of sentences.
provide() {
    local package
    look
    if [ "${#missing[@]}" -gt 0 ] && [ "${3:-}" != "--no-install" ] && may_install; then
        echo "Installing ${missing[*]} $1." >&2
        as_root apt-get update -q >&2 || true
        for package in "${missing[@]}"; do
            install_packages "$package" || true
        done
        look
    fi
    for package in "${missing[@]:+${missing[@]}}"; do
        echo "$package is not installed: $2 (on Debian: apt-get install $package)." >&2
    done
    [ "${#missing[@]}" -eq 0 ]
}
