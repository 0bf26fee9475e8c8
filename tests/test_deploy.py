"""What is deployed: containers, units, dashboard and alerts name only what there is."""

from __future__ import annotations

import ast
import asyncio
import configparser
import json
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import promql_parser
import pytest
import yaml
from aiohttp.test_utils import TestServer

from gateway.app import build_app
from gateway.settings import Settings, load_settings
from gateway.state import SERVICE

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "speechlane.json").read_text("utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
OF_PROMETHEUS = {"up": {"job"}, "ALERTS": {"alertname", "alertstate"}}
OF_SCRAPES = {"job", "instance"}


# Metrics


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """The labels of every series of a service, by name."""
    service = build_app(load_settings())[SERVICE]
    service.metrics.watch_engine(lambda: None)
    registry = service.metrics.registry
    labels: dict[str, set[str]] = dict(OF_PROMETHEUS)
    for collector in registry._collector_to_names:
        for family in collector.collect():
            # A family that is read from the engine knows its labels, a metric does before it has any value.
            has = set(getattr(family, "_labelnames", ()) or getattr(collector, "_labelnames", ()))
            names = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
            for ending in names:
                labels[family.name + ending] = has | ({"le"} if ending == "_bucket" else set())
    return labels


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression, and where it stands."""
    for rule in ALERTS:
        yield f"alert {rule['alert']}", rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield "annotation", annotation["expr"]


def parts(expression: Any) -> Iterator[Any]:
    """An expression of Prometheus and all within it."""
    yield expression
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        if (inner := getattr(expression, name, None)) is not None:
            yield from parts(inner)
    for argument in getattr(expression, "args", ()):
        yield from parts(argument)


@pytest.mark.parametrize(("place", "expression"), list(expressions()))
def test_every_expression_asks_for_metrics_and_labels_that_there_are(
    place: str, expression: str, metrics: dict[str, set[str]]
) -> None:
    found = list(parts(promql_parser.parse(expression.replace("$__rate_interval", "5m"))))
    series = [part for part in found if isinstance(part, promql_parser.VectorSelector)]
    assert series, place
    for one in series:
        assert one.name in metrics, f"{place}: there is no metric {one.name}"
        chosen = {matcher.name for matcher in one.matchers.matchers}
        assert chosen <= metrics[one.name] | OF_SCRAPES, f"{place}: {one.name} has no such label"
    for part in found:
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            within = [inner.name for inner in parts(part.expr) if isinstance(inner, promql_parser.VectorSelector)]
            known = set().union(*(metrics[name] for name in within)) | OF_SCRAPES
            assert set(part.modifier.labels) <= known, f"{place}: {within} have no label {part.modifier.labels}"
        if isinstance(part, promql_parser.Call) and part.func.name == "histogram_quantile":
            assert isinstance(part.args[1], promql_parser.AggregateExpr)
            assert "le" in part.args[1].modifier.labels, place
        if isinstance(part, promql_parser.Call) and part.func.name in ("rate", "increase"):
            [counted] = [inner.name for inner in parts(part) if isinstance(inner, promql_parser.VectorSelector)]
            assert counted.endswith(("_total", "_bucket", "_sum", "_count")), f"{place}: {counted} is no counter"


def test_panels_do_not_overlap_and_have_names_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    titles = [panel["title"] for panel in DASHBOARD["panels"]]
    assert len(set(titles)) == len(titles)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(titles)


# Alerts


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    sections = re.findall(r"^### (Speechlane\w+)$", OPERATIONS, re.MULTILINE)
    assert sections == [rule["alert"] for rule in ALERTS]
    for rule in ALERTS:
        assert rule["annotations"]["runbook_url"] == f"docs/operations.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        text = OPERATIONS.split(f"### {rule['alert']}\n")[1].split("\n#")[0]
        assert len(text.split()) > 25, f"{rule['alert']}: say what it means and what to do"


def test_operations_name_only_settings_that_there_are() -> None:
    settings = set(Settings.model_fields)
    rows = re.findall(r"^\| `(\w+)`", OPERATIONS.split("## Tuning")[1].split("\n## ")[0], re.MULTILINE)
    assert len(rows) > 8
    assert set(rows) <= settings


# Containers


def test_everything_that_is_mounted_exists_and_every_volume_is_declared() -> None:
    volumes = set(COMPOSE["volumes"])
    used_volumes = set()
    for name, service in SERVICES.items():
        for mount in service.get("volumes", ()):
            source, _, target = mount.partition(":")
            assert target.startswith("/"), mount
            if source.startswith("."):
                assert (ROOT / source).is_dir(), f"{name} mounts {source}"
                assert mount.endswith(":ro")
            else:
                used_volumes.add(source)
    assert used_volumes == volumes
    assert {network for service in SERVICES.values() for network in service["networks"]} == set(COMPOSE["networks"])


def test_ports_are_open_as_meant() -> None:
    ports = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert ports.pop("service") == ["${SPEECHLANE_PUBLISH:-8700}:8700"]
    assert ports.pop("prometheus") == ["127.0.0.1:9090:9090"]
    assert ports.pop("grafana") == ["127.0.0.1:3000:3000"]
    assert all(not open_ports for open_ports in ports.values())
    assert SERVICES["queue"]["networks"] == ["lane"] and COMPOSE["networks"]["lane"] == {"internal": True}


def test_no_container_can_write_to_itself_or_gain_privileges() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["deploy"]["resources"]["limits"]["memory"] and service["pids_limit"], name
        assert service["restart"] == "unless-stopped", name
        assert "healthcheck" in service or name == "service", name  # the service has that of its image
        image = service["image"]
        assert "build" in service or re.fullmatch(r"[\w/]+:v?\d[\w.-]*", image), f"{name}: {image} may change by itself"


def test_secrets_come_from_the_environment_and_have_no_default() -> None:
    text = (ROOT / "compose.yaml").read_text("utf-8")
    secrets = {"SPEECHLANE_API_KEYS", "SPEECHLANE_METRICS_KEY", "SPEECHLANE_QUEUE_PASSWORD", "GRAFANA_PASSWORD"}
    for secret in secrets:
        assert f"${{{secret}:?" in text, f"{secret} has to be given"
        assert f"${{{secret}:-" not in text
        assert secret in text.split("\nx-guarded")[0], "its head says how it is made"
    grafana = SERVICES["grafana"]["environment"]
    assert grafana["GF_SECURITY_ADMIN_PASSWORD"].startswith("${GRAFANA_PASSWORD:?")
    assert grafana["GF_AUTH_ANONYMOUS_ENABLED"] == grafana["GF_USERS_ALLOW_SIGN_UP"] == "false"
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*" and "!.env" not in ignored


def test_the_environment_of_containers_is_settings_that_there_are() -> None:
    known = {f"SPEECHLANE_{name.upper()}" for name in Settings.model_fields} | {"TMPDIR"}
    for name in ("service", "worker"):
        assert set(SERVICES[name]["environment"]) <= known
    # What a container is given must be what the settings take.
    given = {key: "x" if "?" in str(value) else value for key, value in SERVICES["service"]["environment"].items()}
    given |= {
        "SPEECHLANE_REDIS_URL": "redis://:x@queue:6379/0",
        "SPEECHLANE_MODELS": "tiny.en",
        "SPEECHLANE_KEY_ROOM": "1",
    }
    load_settings(**{key.removeprefix("SPEECHLANE_").lower(): value for key, value in given.items() if key != "TMPDIR"})


def test_addresses_name_services_that_can_be_reached() -> None:
    def reach(one: str, other: str) -> bool:
        return bool(set(SERVICES[one]["networks"]) & set(SERVICES[other]["networks"]))

    redis = urlsplit(re.sub(r"\$\{[^}]*\}", "x", SERVICES["worker"]["environment"]["SPEECHLANE_REDIS_URL"]))
    assert (redis.hostname, redis.port) == ("queue", 6379)
    assert reach("worker", "queue") and reach("service", "queue")

    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))
    [scrape] = config["scrape_configs"]
    [target] = [one for group in scrape["static_configs"] for one in group["targets"]]
    assert target == "service:8700" and reach("prometheus", "service")
    assert scrape["job_name"] == "speechlane", "alerts ask for it"
    assert scrape["authorization"]["credentials_file"] in SERVICES["prometheus"]["command"][0]
    assert [(DEPLOY / "prometheus" / name).is_file() for name in config["rule_files"]] == [True]

    provisioning = DEPLOY / "grafana" / "provisioning"
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text("utf-8"))["datasources"]
    assert urlsplit(source["url"]).hostname == "prometheus" and reach("grafana", "prometheus")
    [provider] = yaml.safe_load((provisioning / "dashboards" / "speechlane.yml").read_text("utf-8"))["providers"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/speechlane.json"
    assert any(mount.endswith(f":{provider['options']['path']}:ro") for mount in SERVICES["grafana"]["volumes"])


def test_who_is_stopped_has_time_to_drain() -> None:
    seconds = float(SERVICES["service"]["environment"]["SPEECHLANE_DRAIN_SECONDS"])
    assert float(SERVICES["service"]["stop_grace_period"].removesuffix("s")) >= seconds + 20
    default = Settings.model_fields["drain_seconds"].default
    assert float(unit("speechlane.service")["Service"]["TimeoutStopSec"]) >= default + 20


def test_the_image_runs_as_nobody_and_holds_no_tools() -> None:
    stages = DOCKERFILE.split("\nFROM ")
    assert len(stages) == 3 and " AS build" in stages[1]
    final = stages[2]
    assert "pip" not in final.replace("pipe", "")
    assert re.search(r"^USER (\d+):\d+$", final, re.MULTILINE)
    assert final.index("\nUSER ") < final.index("\nENTRYPOINT ")
    assert "HEALTHCHECK" in final and 'ENTRYPOINT ["speechlane"]' in final
    extras = set(re.search(r"'\.\[(.*)\]'", stages[1]).group(1).split(","))  # type: ignore[union-attr]
    assert "models" in extras, "the models are in"


def test_what_is_copied_exists_and_is_let_in() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    copied = [line.split()[1:-1] for line in re.findall(r"^COPY (?!--from).*$", DOCKERFILE, re.MULTILINE)]
    names = {name for line in copied for name in line}
    assert {name for name in names if not (ROOT / name).exists()} == set()
    assert names == set(allowed), "no more is sent to the builder than it takes"
    packages = re.search(r"include = \[(.*)\]", (ROOT / "pyproject.toml").read_text("utf-8")).group(1)  # type: ignore[union-attr]
    rooms = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    built = {name for name in rooms if any(fnmatch(name, one) for one in ast.literal_eval(f"[{packages}]"))}
    assert built <= names, "every room that the package holds is in the image"


async def test_the_health_check_tells_a_service_from_none() -> None:
    async def check(port: int) -> int:
        environment = {"SPEECHLANE_PORT": str(port), "NO_PROXY": "127.0.0.1"}
        script = str(DEPLOY / "healthcheck.py")
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(sys.executable, script, env=environment, stderr=quiet)
        return await process.wait()

    async def never(settings: Settings) -> Any:
        await asyncio.Event().wait()

    async with TestServer(build_app(load_settings(), never)) as server:
        assert server.port is not None
        assert await check(server.port) == 0, "it is alive while the models load"
    assert await check(1) != 0


# Units


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read(DEPLOY / "systemd" / name, "utf-8")
    return parser


@pytest.mark.parametrize("name", ["speechlane.service", "speechlane-worker@.service"])
def test_units_are_confined_and_share_what_they_have_to(name: str) -> None:
    service = unit(name)["Service"]
    confined = ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "DynamicUser", "RestrictNamespaces", "ProtectHome")
    assert all(service[key] == "yes" for key in confined)
    assert service["ProtectSystem"] == "strict" and service["CapabilityBoundingSet"] == ""
    assert "MemoryDenyWriteExecute" not in service, "oneDNN could not run what it compiles"
    assert service["KillMode"] == "mixed", "the queue of a service has to outlive the signal"
    assert service["User"] == service["StateDirectory"] == service["CacheDirectory"] == "speechlane"
    assert f"SPEECHLANE_CACHE=/var/cache/{service['CacheDirectory']} " in service["Environment"]
    assert service["ExecStart"].split()[0].endswith("/speechlane")
    assert service["ExecStart"].split()[1] == ("worker" if "worker" in name else "serve")


def test_the_environment_file_names_settings_that_there_are() -> None:
    text = (DEPLOY / "systemd" / "speechlane.env").read_text("utf-8")
    named = re.findall(r"^#?SPEECHLANE_(\w+)=", text, re.MULTILINE)
    assert named and {name.lower() for name in named} <= set(Settings.model_fields)
