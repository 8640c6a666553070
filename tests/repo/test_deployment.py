"""Workflows, image, compose file and chart: valid by their schemas, pinned, without secrets, and current.

There is neither an engine for images nor a cluster on most machines, so this is what can be known without them. What
needs actionlint, promtool or Helm is skipped where they are missing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from penstock import __version__
from penstock.describe.metrics import GROUPS
from penstock.settings import config
from tests.support.brokers import serving

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SETTINGS = ROOT / "deploy" / "docker" / "penstock.toml"
PROFILES = ROOT / "deploy" / "docker" / "profiles.toml"
PROMETHEUS = ROOT / "deploy" / "docker" / "prometheus.yml"
CHART = ROOT / "deploy" / "helm" / "penstock"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
KUBERNETES = "1.33.0"
PAIR = ("postgres.enabled=true", "tls.secret=certificate", "serviceMonitor.enabled=true")


def tool(name: str) -> str:
    """Return the path of a tool, beside this Python or anywhere; skip the test where it is missing."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return found or pytest.skip(f"there is no {name} here")


def passes(*words: str) -> str:
    """Run a checker that must find nothing; return its output."""
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    return list(job["steps"])


def jobs() -> dict[str, dict[str, Any]]:
    """Every job of every workflow, by the file's name and its own."""
    found = {}
    for path in WORKFLOWS:
        found.update({f"{path.stem}/{name}": job for name, job in yaml.safe_load(path.read_text())["jobs"].items()})
    return found


def test_workflows_and_compose_file_match_their_schemas() -> None:
    checker = tool("check-jsonschema")
    passes(checker, "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS))
    passes(checker, "--builtin-schema", "vendor.compose-spec", str(ROOT / "docker-compose.yml"))
    passes(checker, "--builtin-schema", "vendor.dependabot", str(ROOT / ".github" / "dependabot.yml"))


def test_actionlint_finds_nothing_in_the_workflows() -> None:
    passes(tool("actionlint"), *map(str, WORKFLOWS))


def test_workflows_may_only_read_and_hold_no_secret() -> None:
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
        assert "secrets." not in path.read_text()
    granted = {name: job["permissions"] for name, job in jobs().items() if "permissions" in job}
    assert granted == {"wheels/publish": {"id-token": "write"}}


def test_release_is_published_from_all_jobs_of_a_tag_and_in_no_other_case() -> None:
    found = jobs()
    publish = found["wheels/publish"]
    assert set(publish["needs"]) == {"source", "wheels"}
    assert "refs/tags/v" in publish["if"]
    assert publish["environment"]["name"] == "pypi"
    assert any('test "$GITHUB_REF_NAME" = "v$version"' in each.get("run", "") for each in steps(found["wheels/source"]))


def test_workflow_jobs_have_time_limits_and_pinned_actions() -> None:
    for name, job in jobs().items():
        assert job["timeout-minutes"] <= 120, name
        used = [each["uses"] for each in steps(job) if "uses" in each]
        assert [each for each in used if not re.search(r"@[0-9a-f]{40}$", each)] == [], "a tag can be moved"
        assert "latest" not in job["runs-on"]


def test_images_are_pinned_by_digest() -> None:
    (python,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"python:${PYTHON}"}
    used = {"Dockerfile": python}
    used.update({name: job["container"] for name, job in jobs().items() if "container" in job})
    used.update({name: each["image"] for name, each in COMPOSE["services"].items() if "build" not in each})
    assert set(used) == {"Dockerfile", "tests/all", "prometheus", "grafana"}
    assert {name: image for name, image in used.items() if not re.search(r"[\w.]@sha256:[0-9a-f]{64}$", image)} == {}


def test_pins_are_renewed_by_updates() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    renewed = {each["package-ecosystem"] for each in updates}
    assert renewed == {"github-actions", "docker", "docker-compose"}


def test_workflows_call_targets_and_files_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [line for job in jobs().values() for each in steps(job) for line in each.get("run", "").splitlines()]
    called = {found for line in lines for found in re.findall(r"\bmake ([a-z-]+)", line)}
    assert called
    assert called <= targets
    named = {found for line in lines for found in re.findall(r"(?:^|\s)((?:scripts|deploy|\.ci)/[\w./-]+)", line)}
    assert {"scripts/dist.py", ".ci/run", "deploy/helm/penstock"} <= named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    passes(tool("hadolint"), "Dockerfile")


def health_check() -> list[str]:
    """Return the words of the health check of the image."""
    (words,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)
    return [str(word) for word in json.loads(words)]


def test_image_has_stages_runs_unprivileged_and_holds_no_secret() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert DOCKERFILE.count("\nFROM ") == 2
    assert re.findall(r"^USER (\S+)$", final, re.MULTILINE) == ["10001:10001"]
    assert health_check()[0] == "python"
    assert "gcc" not in final
    assert re.search(r"(?im)^(arg|env) .*(password|secret|token)", DOCKERFILE) is None


def test_files_of_the_image_exist_and_reach_the_engine() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for word in [word for word in line.split() if not word.startswith("--")][:-1]
    }
    assert copied == allowed
    assert [path for path in copied if not (ROOT / path).exists()] == []


def pins(lock: str) -> dict[str, str]:
    """Return the versions in a lock file."""
    text = (ROOT / "requirements" / lock).read_text()
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def test_image_has_every_dependency_in_the_version_that_is_tested() -> None:
    lines = (ROOT / "pyproject.toml").read_text().partition("\ndependencies = [\n")[2].partition("\n]")[0]
    names = set(re.findall(r'^ +"([\w-]+)', lines, re.MULTILINE))
    assert names <= pins("runtime.lock").keys(), "`make lock` writes requirements/runtime.lock anew"
    assert_pinned_alike("runtime.lock")


def assert_pinned_alike(lock: str) -> None:
    """Compare the versions of a lock file with those that the tests use."""
    found, development = pins(lock), pins("development.lock")
    shared = found.keys() & development.keys()
    assert {name: found[name] for name in shared} == {name: development[name] for name in shared}


def test_demo_has_every_package_in_the_version_that_is_tested() -> None:
    assert pins("demo.lock").keys() <= pins("development.lock").keys()
    assert_pinned_alike("demo.lock")


def loaded(text: str, folder: Path) -> config.Settings:
    """Load a settings file as the broker does, with secrets of its own."""
    for name in ("penstock-admin", "penstock-metrics", "admin", "metrics"):
        (folder / name).write_text(f"{name}-password\n")
        (folder / name).chmod(0o400)
    file = folder / "penstock.toml"
    file.write_text(re.sub(r"/run/secrets/(penstock/)?(?!penstock-tls)", f"{folder}/", text))
    return config.load(file)


def test_settings_of_the_image_load_and_have_no_guest(tmp_path: Path) -> None:
    settings = loaded(SETTINGS.read_text(), tmp_path)
    assert settings.listen == ["0.0.0.0:5672"]
    assert settings.http == "0.0.0.0:15672"
    assert settings.data == "/var/lib/penstock"
    assert set(tomllib.loads(SETTINGS.read_text())["users"]) == {"admin", "metrics"}
    assert re.search(r"(?m)^password *=", SETTINGS.read_text() + PROFILES.read_text()) is None
    ports = {word.rpartition(":")[2] for word in (*settings.listen, settings.http)}
    assert set(re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)[0].split()) == ports


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def test_broker_of_the_image_is_healthy_and_its_command_needs_no_guest(tmp_path: Path) -> None:
    """With the files of the image, at other ports and in other folders."""
    moved = {f":{old}": f":{new}" for old, new in zip((5672, 15672, 15692), free_ports(3), strict=True)}
    moved |= {"/run/secrets/": f"{tmp_path}/", "/var/lib/penstock": f"{tmp_path}/data", "0.0.0.0": "127.0.0.1"}

    def there(text: str) -> str:
        for old, new in moved.items():
            text = text.replace(old, new)
        return text

    for name in ("penstock-admin", "penstock-metrics"):
        (tmp_path / name).write_text(f"{name}-password\n")
        (tmp_path / name).chmod(0o400)
    (tmp_path / "profiles.toml").write_text(there(PROFILES.read_text()))
    (tmp_path / "penstock.toml").write_text(there(SETTINGS.read_text()))
    environment = {**os.environ, "PENSTOCK_PROFILES": str(tmp_path / "profiles.toml")}
    with serving(tmp_path, "--config", str(tmp_path / "penstock.toml"), listen=()) as broker:
        words = [there(word).replace("python", sys.executable) for word in health_check()]
        assert subprocess.run(words, check=False).returncode == 0

        def status(*options: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "penstock", "status", *options]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

        assert status().returncode == 0
        refused = status("--url", f"amqp://guest:guest@127.0.0.1:{broker.port}/")
        assert (refused.returncode, "guest" in refused.stderr) == (1, True)
    (tmp_path / "penstock-admin").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "serve", "--config", str(tmp_path / "penstock.toml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "penstock-admin" in done.stderr


def test_compose_file_opens_ports_on_this_machine_only_and_pins_images() -> None:
    for name, service in COMPOSE["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert re.search(r":(v?\d+\.\d+|local)", service["image"]), name
        assert service["cap_drop"] == ["ALL"]


def test_compose_file_takes_passwords_as_secrets_from_the_environment() -> None:
    assert all(set(secret) == {"environment"} for secret in COMPOSE["secrets"].values())
    for service in COMPOSE["services"].values():
        used = {secret["source"] for secret in service.get("secrets", [])}
        assert not service.get("read_only"), "Compose refuses secrets of the environment in a read-only container"
        assert used <= COMPOSE["secrets"].keys()
        plain = [name for name in service.get("environment", {}) if "PASSWORD" in name and not name.endswith("__FILE")]
        assert plain == []


def test_compose_file_mounts_files_of_the_repository() -> None:
    mounts = [volume.split(":") for service in COMPOSE["services"].values() for volume in service["volumes"]]
    paths = [source for source, *_ in mounts if source.startswith("./")]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    named = {source for source, *_ in mounts if not source.startswith("./")}
    assert named == COMPOSE["volumes"].keys()


def test_prometheus_asks_the_broker_as_the_user_that_it_has() -> None:
    for job in yaml.safe_load(PROMETHEUS.read_text())["scrape_configs"]:
        assert job["static_configs"] == [{"targets": ["penstock:15672"]}]
        assert f"[users.{job['basic_auth']['username']}]" in SETTINGS.read_text()
        secret = Path(job["basic_auth"]["password_file"])
        assert secret.name in {each["source"] for each in COMPOSE["services"]["prometheus"]["secrets"]}
        assert set(job.get("params", {}).get("family", [])) <= GROUPS
    assert '"penstock"' in SETTINGS.read_text().partition("http-hosts = ")[2].splitlines()[0]


def test_prometheus_reads_the_rules_of_the_repository() -> None:
    (pattern,) = yaml.safe_load(PROMETHEUS.read_text())["rule_files"]
    mounts = [volume.split(":") for volume in COMPOSE["services"]["prometheus"]["volumes"]]
    (folder,) = [source for source, target, *_ in mounts if pattern.startswith(f"{target}/") and source != target]
    files = [path.name for path in (ROOT / folder).glob(pattern.rpartition("/")[2])]
    assert files == ["penstock-rules.yml"]


def test_promtool_accepts_the_configuration() -> None:
    assert "SUCCESS" in passes(tool("promtool"), "check", "config", "--syntax-only", str(PROMETHEUS))


def test_grafana_finds_its_source_and_its_boards() -> None:
    folder = ROOT / "deploy" / "docker" / "grafana"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((folder / "dashboards" / "penstock.yml").read_text())["providers"]
    targets = [volume.split(":")[1] for volume in COMPOSE["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in targets


def test_chart_has_the_version_of_the_broker() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_values_of_the_chart_match_its_schema_and_a_mistyped_one_does_not() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(VALUES, schema)
    assert VALUES.keys() == schema["properties"].keys() - {"global"}
    for wrong in ({"postgres": {"enabled": "yes"}}, {"persistance": {}}, {"users": {"admin": "guest", "metrics": "m"}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**VALUES, **wrong}, schema)


def test_templates_of_the_chart_use_values_that_exist_and_use_all_of_them() -> None:
    text = "".join(path.read_text() for path in sorted((CHART / "templates").rglob("*")) if path.is_file())
    used = set(re.findall(r"\.Values\.([\w.]+)", text))
    for path in used:
        found: Any = VALUES
        for name in path.split("."):
            assert name in found, path
            found = found[name]
    leaves = {f"{name}.{part}" if part else name for name, each in VALUES.items() for part in parts_of(each)}
    assert [leaf for leaf in leaves if not any(leaf == path or leaf.startswith(f"{path}.") for path in used)] == []


def parts_of(value: object) -> list[str]:
    """Return the names in a table of values, or an empty one for a value."""
    return list(value) if isinstance(value, dict) and value else [""]


def test_chart_and_compose_file_scrape_the_same_families() -> None:
    template = (CHART / "templates" / "servicemonitor.yaml").read_text()
    families = re.findall(r"family: \[(.*)\]", template) + re.findall(r"family: \[(.*)\]", PROMETHEUS.read_text())
    assert len(families) == 2
    assert len(set(families)) == 1


def rendered(*values: str) -> list[dict[str, Any]]:
    """Return the objects that Helm makes of the chart."""
    options = [word for value in values for word in ("--set", value)]
    helm = (tool("helm"), "template", "release", str(CHART), "--kube-version", KUBERNETES, *options)
    return [each for each in yaml.safe_load_all(passes(*helm)) if each]


@pytest.mark.parametrize("values", [(), PAIR], ids=["volume", "pair"])
def test_helm_accepts_the_chart(values: tuple[str, ...]) -> None:
    options = [word for value in values for word in ("--set", value)]
    passes(tool("helm"), "lint", "--strict", str(CHART), "--kube-version", KUBERNETES, *options)


def test_chart_makes_one_broker_with_a_volume_that_is_probed(tmp_path: Path) -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in rendered()}
    pods = objects["StatefulSet", "release-penstock"]["spec"]
    assert pods["replicas"] == 1
    (container,) = pods["template"]["spec"]["containers"]
    check_probes(container)
    assert pods["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    assert [each["metadata"]["name"] for each in pods["volumeClaimTemplates"]] == ["data"]
    settings = loaded(objects["ConfigMap", "release-penstock"]["data"]["penstock.toml"], tmp_path)
    assert settings.data == "/var/lib/penstock"
    assert settings.store is None
    assert settings.metrics_listen == "0.0.0.0:15692"
    open_to_pods = objects["NetworkPolicy", "release-penstock"]["spec"]["ingress"]
    assert open_to_pods == [{"ports": [{"port": "amqp"}, {"port": "http"}]}]


def check_probes(container: dict[str, Any]) -> None:
    """Look at the probes of a broker: they ask the address without a login."""
    asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("readiness", "liveness")}
    assert asked == {
        "readiness": {"path": "/ready", "port": "probes"},
        "liveness": {"path": "/live", "port": "probes"},
    }
    assert {each["name"]: each["containerPort"] for each in container["ports"]}["probes"] == 15692


def test_chart_makes_a_pair_on_postgresql_whose_standby_lives() -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in rendered(*PAIR)}
    pods = objects["StatefulSet", "release-penstock"]["spec"]
    assert pods["replicas"] == 2
    assert pods["updateStrategy"] == {"type": "OnDelete"}
    assert "volumeClaimTemplates" not in pods
    (container,) = pods["template"]["spec"]["containers"]
    assert container["args"][-1] == "--standby"
    check_probes(container)
    text = objects["ConfigMap", "release-penstock"]["data"]["penstock.toml"]
    assert 'store = "postgresql://penstock@postgres:5432/penstock?schema=penstock&sslmode=require"' in text
    assert ("ServiceMonitor", "release-penstock") in objects
