"""The Helm chart: rendered by helm, validated against the schemas of Kubernetes, and its configuration by the real
binary."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess

import kubernetes_validate
import pytest
import yaml
from conftest import CHART, DEPLOY, program, run

EXAMPLES = sorted((DEPLOY / "examples").glob("*.yaml"))
# The oldest version that the chart supports, and a recent one.
VERSIONS = ["1.30", "1.34"]
# The least that can be installed.
LEAST = ["--set", "tls.secretName=t", "--set", "authentication.apiKeys.secretName=k"]
# Kinds of the Prometheus operator, which Kubernetes has no schemas of.
OPERATOR = "monitoring.coreos.com/v1"


def template(*arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return run(program("helm"), "template", "gate", CHART, "--namespace", "flows", *arguments, check=False)


def rendered(*arguments: str | pathlib.Path) -> dict[tuple[str, str], dict]:
    """The objects by kind and name."""
    done = template(*arguments)
    assert done.returncode == 0, done.stderr
    objects = [it for it in yaml.safe_load_all(done.stdout) if it]
    found = {(it["kind"], it["metadata"]["name"]): it for it in objects}
    assert len(found) == len(objects), "two objects have one name"
    return found


def refused(*arguments: str) -> str:
    done = template(*arguments)
    assert done.returncode != 0, done.stdout
    return done.stderr


def pod(objects: dict) -> dict:
    return workload(objects)["spec"]["template"]["spec"]


def workload(objects: dict) -> dict:
    found = [it for it in objects.values() if it["kind"] in ("Deployment", "StatefulSet")]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_lint_finds_nothing(values: pathlib.Path) -> None:
    done = run(program("helm"), "lint", "--strict", CHART, "--values", values)
    assert "0 chart(s) failed" in done.stdout
    assert "WARNING" not in done.stdout and "ERROR" not in done.stdout, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_every_object_fits_the_schema_of_kubernetes(values: pathlib.Path, version: str) -> None:
    objects = rendered("--values", values, "--kube-version", version)
    checked = 0
    for one in objects.values():
        if one["apiVersion"] != OPERATOR:
            kubernetes_validate.validate(one, version, strict=True)
            checked += 1
        assert one["metadata"]["namespace"] == "flows", one["metadata"]
    assert checked >= 6
    with pytest.raises(kubernetes_validate.ValidationError):
        broken = dict(workload(objects), spec={"replicas": "many"})
        kubernetes_validate.validate(broken, version, strict=True)


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_the_gateway_accepts_the_configuration_of_the_chart(
    values: pathlib.Path, binary: pathlib.Path, certificates: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    objects = rendered("--values", values)
    text = objects["ConfigMap", "gate"]["data"]["stateway.toml"]
    mounts = {it["mountPath"] for it in pod(objects)["containers"][0]["volumeMounts"]}
    # Every file of the configuration is below a mount of the pod.
    files = re.findall(r'"(/[^"]+)"', text)
    assert files
    for file in files:
        assert any(file.startswith(f"{mount}/") for mount in mounts), file
    (tmp_path / "token.key").write_text("0f" * 32)
    (tmp_path / "audit.key").write_text("0f" * 32)
    (tmp_path / "secret").write_text("0f" * 32)
    (tmp_path / "keys.json").write_text('{"version": 1, "keys": []}')
    places = {
        "/etc/stateway/tls": certificates,
        "/etc/stateway/client-ca": certificates,
        "/etc/stateway/token": tmp_path,
        "/etc/stateway/api-keys": tmp_path,
        "/etc/stateway/audit-key": tmp_path,
        "/etc/stateway/audit-webhook": tmp_path,
        "/var/lib/stateway": tmp_path,
        "/var/log/stateway": tmp_path,
    }
    for place, folder in places.items():
        text = text.replace(f'"{place}/', f'"{folder}/')
    config = tmp_path / "stateway.toml"
    config.write_text(text)
    environment = {"RESTATE_ADMIN_TOKEN": "x"}
    shown = run(binary, "config", "check", "--without-files", config, env=environment).stdout
    assert 'monitoring_listen = "0.0.0.0:7381"' in shown
    config.write_text(text + "\nmisspelt = 1\n")
    assert run(binary, "config", "check", "--without-files", config, check=False, env=environment).returncode == 2


def test_the_built_in_engine_is_one_process_with_one_volume() -> None:
    objects = rendered(*LEAST)
    one = workload(objects)
    assert (one["kind"], one["spec"]["replicas"]) == ("StatefulSet", 1)
    claim = one["spec"]["volumeClaimTemplates"][0]["spec"]
    assert claim["accessModes"] == ["ReadWriteOncePod"]
    assert ("PodDisruptionBudget", "gate") not in objects
    assert "one file that one process can use" in refused(*LEAST, "--set", "replicas=2")


def test_gateways_with_a_shared_store_stand_by_without_being_restarted() -> None:
    values = ["--values", DEPLOY / "examples/shared-store.yaml"]
    objects = rendered(*values)
    one = workload(objects)
    assert (one["kind"], one["spec"]["replicas"]) == ("Deployment", 2)
    # A gateway that stands by is never ready: nothing may wait for that.
    assert one["spec"]["strategy"] == {"type": "Recreate"}
    assert ("PodDisruptionBudget", "gate") not in objects
    container = pod(objects)["containers"][0]
    assert container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "monitoring"}
    for kind in ("startupProbe", "livenessProbe"):
        assert container[kind]["tcpSocket"] == {"port": "monitoring"} and "httpGet" not in container[kind]
    assert not claims(objects) and "data" not in mounted(objects)
    secrets = {it["name"]: it["secret"]["secretName"] for it in pod(objects)["volumes"] if "secret" in it}
    assert (secrets["store"], secrets["store-ca"]) == ("stateway-store", "stateway-store-ca")
    text = objects["ConfigMap", "gate"]["data"]["stateway.toml"]
    assert 'store = "postgres://stateway@postgres.databases.svc:5432/stateway"' in text
    assert "stateway.db" not in text and "backups" not in text
    # With a log for each gateway, an update waits for the operator instead of for gateways that stand by.
    logged = workload(rendered(*values, "--set", "audit.enabled=true"))
    assert (logged["kind"], logged["spec"]["updateStrategy"]) == ("StatefulSet", {"type": "OnDelete"})
    assert logged["spec"]["podManagementPolicy"] == "Parallel"
    assert "tokenKey.secretName" in refused(*values, "--set", "tokenKey.secretName=")
    alone = ["--set", "builtin.store.url=", "--set", "replicas=1"]
    assert "need builtin.enabled and builtin.store.url" in refused(*values, *alone)
    assert "builtin.store.url" in refused(*values, "--set", "builtin.enabled=false")
    assert "store" in refused(*values, "--set", "builtin.store.url=stateway.db")


def test_several_gateways_share_a_token_key_and_a_disruption_budget() -> None:
    values = ["--values", DEPLOY / "examples/replicas.yaml"]
    objects = rendered(*values)
    one = workload(objects)
    assert (one["kind"], one["spec"]["replicas"]) == ("Deployment", 3)
    assert one["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert objects["PodDisruptionBudget", "gate"]["spec"]["maxUnavailable"] == 1
    assert objects["Service", "gate"]["spec"]["clusterIP"] == "None"
    assert "volumeClaimTemplates" not in one["spec"]
    assert "tokenKey.secretName" in refused(*values, "--set", "tokenKey.secretName=")


def shell_blocks() -> list[str]:
    """The commands of the page about deployment."""
    text = (DEPLOY.parent / "docs/deploy.md").read_text()
    return [it.replace("\\\n", " ") for it in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]


def test_the_commands_of_the_documentation_install_the_chart(binary: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (block,) = [it for it in shell_blocks() if "helm install" in it]
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    (keys,) = [line for line in lines if line[:2] == ["stateway", "keys"]]
    run(binary, *keys[1:], cwd=tmp_path)
    secrets = {line[4]: line[5:] for line in lines if line[:3] == ["kubectl", "create", "secret"]}
    assert secrets["stateway-keys"] == ["--from-file=keys.json"] and (tmp_path / "keys.json").exists()
    (install,) = [line for line in lines if line[:2] == ["helm", "install"]]
    assert install[3] == str(CHART.relative_to(DEPLOY.parent))
    (tmp_path / "rules.toml").write_text('[[access.rules]]\nname = "r"\nwho = { role = "operator" }\nmay = "operator"\n')
    done = run(program("helm"), "template", install[2], CHART, *install[4:], cwd=tmp_path)
    objects = {(it["kind"], it["metadata"]["name"]): it for it in yaml.safe_load_all(done.stdout) if it}
    named = {it["secret"]["secretName"] for it in pod(objects)["volumes"] if "secret" in it}
    assert named == set(secrets)
    # The loop over the logs selects the pods of this release.
    (loop,) = [it for it in shell_blocks() if "kubectl get pods" in it] or [""]
    labels = workload(objects)["spec"]["template"]["metadata"]["labels"]
    key, _, value = re.search(r"--selector (\S+?)[ )]", loop).group(1).partition("=")
    assert labels[key] == value == install[2]


def test_the_files_of_every_shell_block_of_the_documentation_exist(tmp_path: pathlib.Path) -> None:
    root = DEPLOY.parent
    seen = set()
    for block in shell_blocks():
        for path in re.findall(r"(?<![\w/.])deploy/[\w./-]+", block):
            assert (root / path).exists(), path
            seen.add(path)
    assert {"deploy/Dockerfile", "deploy/helm/stateway", "deploy/systemd/stateway.service"} <= seen
    # The files of the unit are installed by these commands, below another root.
    (systemd,) = [it for it in shell_blocks() if "systemctl enable" in it]
    program_ = tmp_path / "stateway"
    program_.write_text("")
    folders = ["usr/local/bin", "usr/lib/sysusers.d", "etc/systemd/system"]
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    installed = 0
    for line in systemd.splitlines():
        if line.startswith("install -m"):
            line = line.partition(" && ")[0].replace("target/release/stateway", str(program_))
            line = re.sub(r" /(usr|etc)/", rf" {tmp_path}/\1/", line)
            run("sh", "-ec", line, cwd=root)
            installed += 1
    assert installed == 3
    files = sorted(str(it.relative_to(tmp_path)) for folder in folders for it in (tmp_path / folder).iterdir())
    assert files == [
        "etc/systemd/system/stateway.service",
        "usr/lib/sysusers.d/stateway.conf",
        "usr/local/bin/stateway",
    ]
    unit = (tmp_path / "etc/systemd/system/stateway.service").read_text()
    assert "ExecStart=/usr/local/bin/stateway" in unit


def claims(objects: dict) -> dict[str, dict]:
    """The volumes of each pod by name."""
    templates = workload(objects)["spec"].get("volumeClaimTemplates", [])
    return {it["metadata"]["name"]: it["spec"] for it in templates}


def mounted(objects: dict) -> dict[str, str]:
    return {it["name"]: it["mountPath"] for it in pod(objects)["containers"][0]["volumeMounts"]}


def audit_section(objects: dict) -> list[str]:
    """The lines of [audit] and [audit.webhook]."""
    text = objects["ConfigMap", "gate"]["data"]["stateway.toml"]
    sections = [part for part in re.split(r"^(?=\[)", text, flags=re.M) if part.startswith("[audit")]
    return [line for line in "".join(sections).splitlines() if line and not line.startswith("#")]


def test_each_gateway_with_an_audit_log_has_a_volume_that_outlives_it() -> None:
    objects = rendered("--values", DEPLOY / "examples/audit.yaml")
    one = workload(objects)
    assert (one["kind"], one["spec"]["replicas"]) == ("StatefulSet", 3)
    assert one["spec"]["serviceName"] == "gate"
    assert one["spec"]["podManagementPolicy"] == "Parallel"
    kept = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert one["spec"]["persistentVolumeClaimRetentionPolicy"] == kept
    assert "strategy" not in one["spec"]
    wanted = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "5Gi"}}}
    assert claims(objects) == {"audit": wanted}
    assert mounted(objects)["audit"] == "/var/log/stateway"
    assert objects["PodDisruptionBudget", "gate"]["spec"]["maxUnavailable"] == 1
    secrets = {it["name"]: it["secret"]["secretName"] for it in pod(objects)["volumes"] if "secret" in it}
    assert secrets["audit-key"] == "stateway-audit-key"
    assert secrets["audit-webhook"] == "stateway-audit-receiver"
    assert audit_section(objects) == [
        "[audit]",
        'file = "/var/log/stateway/audit.jsonl"',
        'key_file = "/etc/stateway/audit-key/audit.key"',
        "keep = 64",
        "[audit.webhook]",
        'url = "https://siem.example.org/stateway"',
        'secret_file = "/etc/stateway/audit-webhook/secret"',
    ]


def test_the_volume_has_space_for_every_file_that_rotation_keeps() -> None:
    size = claims(rendered(*LEAST, "--set", "audit.enabled=true"))["audit"]["resources"]["requests"]["storage"]
    example = (DEPLOY.parent / "docs/stateway.example.toml").read_text()
    most, keep = (int(re.search(rf"^#{key} = (\d+)$", example, re.M)[1]) for key in ("max_bytes", "keep"))
    assert size.endswith("Gi") and int(size[:-2]) * 2**30 > most * (keep + 1)
    # The same for the example, which keeps more files.
    objects = rendered("--values", DEPLOY / "examples/audit.yaml")
    size = claims(objects)["audit"]["resources"]["requests"]["storage"]
    assert "keep = 64" in audit_section(objects)
    assert int(size[:-2]) * 2**30 > most * (64 + 1)


def test_the_audit_log_and_the_store_of_the_built_in_engine_have_separate_volumes() -> None:
    objects = rendered(*LEAST, "--set", "audit.enabled=true")
    assert list(claims(objects)) == ["data", "audit"]
    places = mounted(objects)
    assert (places["data"], places["audit"]) == ("/var/lib/stateway", "/var/log/stateway")
    assert audit_section(objects) == ["[audit]", 'file = "/var/log/stateway/audit.jsonl"']
    # Kubernetes refuses a change of this field of a StatefulSet that exists.
    assert "podManagementPolicy" not in workload(objects)["spec"]


def test_without_audit_no_gateway_has_a_log() -> None:
    for values in ([*LEAST], ["--values", DEPLOY / "examples/replicas.yaml"]):
        objects = rendered(*values)
        assert not audit_section(objects)
        assert "audit" not in claims(objects) and "audit" not in mounted(objects)
        assert "persistentVolumeClaimRetentionPolicy" not in workload(objects)["spec"]


def test_an_audit_log_without_a_place_or_with_half_a_receiver_is_not_rendered(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log.yaml"
    log.write_text(yaml.safe_dump({"config": '[providers.p]\nkind = "memory"\n[audit]\nfile = "/tmp/a.jsonl"\n'}))
    alone = [*LEAST, "--values", log, "--set", "builtin.enabled=false"]
    assert "no writable volume" in refused(*alone)
    assert "the chart writes that section" in refused(*alone, "--set", "audit.enabled=true")
    receiver = ["--set", "audit.webhook.url=https://siem.example.org"]
    assert "both url and secretName" in refused(*LEAST, "--set", "audit.enabled=true", *receiver)
    assert "needs audit.enabled" in refused(*LEAST, *receiver)
    receiver += ["--set", "audit.enabled=true", "--set", "audit.webhook.secretName=s"]
    rendered(*LEAST, *receiver)
    assert "[audit.webhook]" in refused(*LEAST, *receiver, "--set", "config=[audit.webhook]")
    # A log of one's own: on the volume of the built-in engine, or on a volume that the values mount.
    rendered(*LEAST, "--values", log)
    mount = ["--set-json", 'extraVolumeMounts=[{"name":"own","mountPath":"/tmp"}]']
    rendered(*alone, *mount, "--set-json", 'extraVolumes=[{"name":"own","emptyDir":{}}]')


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "tls.secretName"),
        (["--set", "tls.secretName=t"], "at least one method"),
        (["--set", "tls.secretName=t", "--set", "authentication.certificates.enabled=true"], "clientCaSecretName"),
        ([*LEAST, "--set", "authentication.jwt.issuer=https://i"], "audience and jwksUrl"),
        ([*LEAST, "--set", "builtin.enabled=false"], "[providers.ID]"),
        ([*LEAST, "--set", "replica=3"], "replica"),
        ([*LEAST, "--set", "tls.secret=t"], "secret"),
    ],
)
def test_a_gateway_that_could_not_start_is_not_rendered(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_pods_have_no_privileges_and_a_read_only_root(values: pathlib.Path) -> None:
    spec = pod(rendered("--values", values))
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    container = spec["containers"][0]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    # Secrets are files or references: no value of one is in the pod or in the configuration.
    assert all("value" not in it or it["name"].startswith("STATEWAY_") for it in container["env"])
    writable = [it["mountPath"] for it in container["volumeMounts"] if not it.get("readOnly")]
    assert writable in ([], ["/var/lib/stateway"], ["/var/log/stateway"])


def test_probes_ask_the_port_without_tls_and_credentials() -> None:
    container = pod(rendered(*LEAST))["containers"][0]
    ports = {it["name"]: it["containerPort"] for it in container["ports"]}
    assert ports == {"grpc": 7380, "monitoring": 7381}
    for kind in ("startup", "readiness", "liveness"):
        probe = container[f"{kind}Probe"]
        assert probe["httpGet"] == {"path": "/healthz", "port": "monitoring"}
    other = rendered(*LEAST, "--set", "probes.liveness.periodSeconds=7", "--set", "monitoring.port=9000")
    container = pod(other)["containers"][0]
    assert container["livenessProbe"]["periodSeconds"] == 7
    assert 'monitoring_listen = "0.0.0.0:9000"' in other["ConfigMap", "gate"]["data"]["stateway.toml"]


def test_a_pod_has_time_to_drain() -> None:
    spec = pod(rendered(*LEAST))
    before = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    # `server.drain` is 10 s, once for calls and once for streams.
    assert spec["terminationGracePeriodSeconds"] >= before + 2 * 10


def test_only_clients_reach_the_api_and_only_scrapers_the_metrics() -> None:
    policy = rendered(*LEAST)["NetworkPolicy", "gate"]["spec"]
    rules = {rule["ports"][0]["port"]: rule["from"] for rule in policy["ingress"]}
    assert set(rules) == {"grpc", "monitoring"} and all(rules.values())
    assert policy["policyTypes"] == ["Ingress"]
    # No peers means nobody, not everybody.
    none = rendered(*LEAST, "--set-json", "networkPolicy.monitoring=[]")["NetworkPolicy", "gate"]["spec"]
    assert [rule["ports"][0]["port"] for rule in none["ingress"]] == ["grpc"]
    out = ["--set-json", 'networkPolicy.egress=[{"ports":[{"port":443}]}]']
    limited = rendered(*LEAST, *out)["NetworkPolicy", "gate"]["spec"]
    assert limited["policyTypes"] == ["Ingress", "Egress"] and limited["egress"]
    off = rendered(*LEAST, "--set", "networkPolicy.enabled=false")
    assert ("NetworkPolicy", "gate") not in off
    # A load balancer in front of the API does not expose the other port.
    service = rendered(*LEAST, "--set", "service.type=LoadBalancer")["Service", "gate"]["spec"]
    assert [port["targetPort"] for port in service["ports"]] == ["grpc"]


def test_a_changed_configuration_restarts_the_pods() -> None:
    def annotation(*more: str) -> str:
        return workload(rendered(*LEAST, *more))["spec"]["template"]["metadata"]["annotations"]["stateway/config"]

    assert annotation() == annotation()
    assert annotation() != annotation("--set", "server.config=reflection = false")


def test_monitoring_is_optional_and_complete() -> None:
    assert not [kind for kind, _ in rendered(*LEAST) if kind in ("ServiceMonitor", "PrometheusRule")]
    objects = rendered("--values", DEPLOY / "examples/replicas.yaml")
    monitor = objects["ServiceMonitor", "gate"]["spec"]
    service = objects["Service", "gate-monitoring"]
    wanted = monitor["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert not wanted.items() <= objects["Service", "gate"]["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    rules = yaml.safe_load((CHART / "files/rules.yaml").read_text())
    assert objects["PrometheusRule", "gate"]["spec"] == rules
    shown = objects["ConfigMap", "gate-dashboard"]["data"]["stateway.json"]
    assert shown.strip() == (CHART / "files/dashboard.json").read_text().strip()
