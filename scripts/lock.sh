#!/usr/bin/env bash
# Write the lock files anew from pyproject.toml: every package with its hashes, for Python 3.11 and later.
set -euo pipefail
cd "$(dirname "$0")/.."

.venv/bin/python -m pip install --quiet uv
compile=(.venv/bin/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes
    --no-emit-index-url --custom-compile-command "make lock" "$@")

# The build tools come first: some packages in the second lock are source packages, and are built with these.
"${compile[@]}" --group build --output-file requirements/build.lock
"${compile[@]}" pyproject.toml --extra spark --extra uvloop --group lint --group test --group demo --group docs \
    --constraint requirements/build.lock --output-file requirements/development.lock
"${compile[@]}" pyproject.toml --extra spark --extra uvloop --group demo \
    --constraint requirements/development.lock --output-file requirements/demo.lock
"${compile[@]}" --group proton --constraint requirements/build.lock --output-file requirements/clients/proton.lock
"${compile[@]}" pyproject.toml --extra postgres --extra oauth --extra tls --extra uvloop --extra terminal --extra otel \
    --constraint requirements/development.lock --output-file requirements/runtime.lock
"${compile[@]}" --group dist --constraint requirements/build.lock --output-file requirements/dist.lock
for client in azure interop uamqp; do
    "${compile[@]}" --group "$client" --output-file "requirements/clients/$client.lock"
done
echo "Wrote build.lock, development.lock, demo.lock, runtime.lock and dist.lock in requirements, and in its folder clients proton.lock, azure.lock, interop.lock and uamqp.lock."
