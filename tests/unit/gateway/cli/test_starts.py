"""What a command imports: each only what it needs, for importing is most of what a start costs. Sets, no clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.amqp.sasl.user_file import make_entry, put_user
from tests.support.gateway.policy import KEY
from tests.support.gateway.process import free_port
from tests.support.servers.certs import Authority

PRINT = """
import sys
import sysconfig
from gateway.cli.main import main
try:
    main(standalone_mode=False)
except SystemExit as end:
    if end.code:
        raise
if (base := sys.modules.get("policies.values.base")) is not None:
    kinds = [base.Strict]
    for kind in kinds:
        kinds += kind.__subclasses__()
    print("built:", *(kind.__name__ for kind in kinds if kind.__pydantic_complete__))
print("imported:", *sys.modules)
"""
STDLIB = {*sys.stdlib_module_names, sysconfig._get_sysconfigdata_name()}  # type: ignore[attr-defined]
OURS = {"gateway", "bridges", "policies"}
READING = {"click", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "ruamel"}
LATER = (
    "bridges", "confluent_kafka", "cryptography.hazmat.primitives.ciphers", "cryptography.x509",
    "gateway.admin.handlers", "gateway.amqp.sasl.client", "gateway.amqp.sasl.user_file",
    "gateway.forwarding.worker", "gateway.connectors.connector", "gateway.journal.recorder", "numpy", "pandas",
    "proton", "pyarrow", "pyspark", "redis", "rich", "scramp", "yaml",
)  # fmt: skip
"""What a gateway imports only where its policy has clusters, bridges, connectors, a journal, users, TLS or Redis.

And what it imports when somebody uses its admin API.
"""


def policy(folder: Path, **parts: Any) -> Path:
    """Return a file with two scopes, cookies between them, and a listener; `parts` is added at the top or replaces."""
    access = [{"who": "*", "may": ["send", "receive"], "on": "**"}]
    relay = {"match": "svc/{name}", "relay": "core", "address": "services/{name}", "replies": "cookie"}
    document: dict[str, Any] = {
        "gateway": {"id": "starts", "http": f"127.0.0.1:{free_port()}"},
        "keys": {"active": "k", "ring": {"k": {"env": "SCOPEGATE_STARTS_KEY"}}},
        "scopes": {
            "edge": {
                "listen": [{"bind": f"127.0.0.1:{free_port()}", "sasl": ["anonymous"]}],
                "addresses": [relay],
                "access": access,
            },
            "core": {"addresses": [{"match": "services/**", "direct": "balanced"}], "access": access},
        },
        **parts,
    }
    file = folder / "policy.json"
    file.write_text(json.dumps(document))
    return file


def started(*arguments: object, more: Mapping[str, str] = MappingProxyType({})) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PRINT, *map(str, arguments)]
    env = {**os.environ, "SCOPEGATE_STARTS_KEY": KEY, **more}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def output(*arguments: object, more: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what a command has said, and the lists of `PRINT`; `more` is added to its environment."""
    process = started(*arguments, more=more)
    said, errors = process.communicate()
    assert process.returncode == 0, said + errors
    return said


def modules(*arguments: object) -> set[str]:
    """Return the names of what a command has imported when it ends."""
    return listed(output(*arguments))


def listed(said: str, what: str = "imported") -> set[str]:
    """Return the names behind the last `imported:`, or `built:`."""
    return set(said.rpartition(f"{what}:")[2].partition("\n")[0].split())


def bare() -> set[str]:
    """Return what Python itself imports here, with what the environment adds to every start."""
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())


def libraries(names: set[str]) -> set[str]:
    """Return the packages among them that are neither Python's nor ours."""
    return {name.partition(".")[0] for name in names - bare()} - STDLIB - OURS


def later(names: set[str]) -> set[str]:
    """Return what is there of what a plain policy has no use for."""
    return {each for each in LATER if each in names or any(name.startswith(f"{each}.") for name in names)}


def test_the_version_needs_click_alone() -> None:
    found = modules("version")
    assert libraries(found) == {"click"}
    assert {"asyncio", "secrets", "ssl", "tempfile"}.isdisjoint(found)
    ours = {name for name in found if name.startswith("gateway.cli.")}
    assert ours == {"gateway.cli.common", "gateway.cli.main", "gateway.cli.version"}
    assert not [name for name in found if name.startswith(("bridges", "policies.model", "gateway.amqp"))]


def test_check_of_a_plain_policy_reads_it_and_loads_no_gateway(tmp_path: Path) -> None:
    found = modules("check", policy(tmp_path))
    assert libraries(found) == READING
    assert later(found) == set()
    assert {"asyncio", "gateway.server.gateway", "gateway.nodes", "gateway.filters"}.isdisjoint(found)


def test_packages_that_are_installed_beside_do_not_take_part_in_reading_a_policy(tmp_path: Path) -> None:
    """pydantic would import each package that says it is its plugin, and look for them in all that are installed."""
    (tmp_path / "beside.py").write_text("raise SystemExit('imported')")
    (tmp_path / "beside-1.dist-info").mkdir()
    (tmp_path / "beside-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: beside\nVersion: 1\n")
    (tmp_path / "beside-1.dist-info" / "entry_points.txt").write_text("[pydantic]\nbeside = beside:plugin\n")
    found = listed(output("check", policy(tmp_path), more={"PYTHONPATH": str(tmp_path)}))
    assert "policies.rules" in found
    assert "beside" not in found


def test_check_builds_the_sections_that_the_policy_has(tmp_path: Path) -> None:
    """Building all of them would take a third of a start."""
    default = {"AdminSection", "Filters", "ListenerLimits"}
    plain = {"Policy", "GatewaySection", "KeysSection", "KeyEntry", "Secret", "ScopeSection", "ListenerSection",
        "AccessRule", "DirectRule", "RelayRule", "Returns", *default}  # fmt: skip
    assert listed(output("check", policy(tmp_path)), "built") == plain
    clusters = {"main": {"bootstrap": "127.0.0.1:9", "security": {"tls": True}}}
    more = listed(output("check", policy(tmp_path, kafka=clusters)), "built")
    assert more == plain | {"KafkaCluster", "KafkaSecurity", "KafkaTls"}


def test_check_loads_what_the_policy_names(tmp_path: Path) -> None:
    """Each of it is missing above: so the test above would see it."""
    users = put_user("", "ann", make_entry("a-long-password", salt=b"0123456789abcdef"))
    (tmp_path / "users.yaml").write_text(users)
    files = Authority(tmp_path).server("localhost")
    listener = {
        "bind": "127.0.0.1:0",
        "sasl": ["scram-sha-256"],
        "users": "users.yaml",
        "tls": {"cert": str(files.cert), "key": str(files.key)},
    }
    cluster = {"bootstrap": "127.0.0.1:9", "client": {"linger.ms": "1"}}
    scope = {"listen": [listener], "addresses": [{"match": "a", "direct": "balanced"}]}
    found = modules("check", policy(tmp_path, kafka={"main": cluster}, scopes={"edge": scope}))
    assert later(found) >= {"bridges", "confluent_kafka", "cryptography.x509", "gateway.amqp.sasl.user_file", "scramp"}
    assert "gateway.server.gateway" not in found


def test_a_plain_gateway_loads_no_room_that_it_does_not_use(tmp_path: Path) -> None:
    process = started("run", policy(tmp_path))
    assert process.stderr is not None
    lines = []
    for line in process.stderr:  # its end is the end of a gateway that did not start
        lines.append(line)
        if '"serving"' in line:
            break
    assert process.poll() is None, "".join(lines)
    process.send_signal(signal.SIGTERM)
    said, errors = process.communicate()
    assert process.returncode == 0, "".join(lines) + errors
    found = listed(said)
    assert "gateway.server.gateway" in found
    assert later(found) == set()


def test_rich_is_there_for_those_who_need_it() -> None:
    code = "import sys, gateway.observability.logs; assert 'rich' not in sys.modules; import rich.console"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_languages_of_filters_are_loaded_when_the_gateway_serves() -> None:
    code = (
        "import sys, gateway.server.gateway, gateway.filters.parse.filter_set as f; assert 'lark' not in sys.modules; "
        "f.prepare(); assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_is_collected_while_a_policy_is_loaded_nor_at_the_end(tmp_path: Path) -> None:
    code = (
        "import atexit, gc, sys; from pathlib import Path; from gateway.cli.common import load_policy\n"
        "gc.collect(); begun = []; gc.callbacks.append(lambda phase, info: begun.append(phase))\n"
        "load_policy(Path(sys.argv[1])); print(len(begun), gc.isenabled())\n"
        "import gateway.cli.main; gc.unfreeze(); atexit._run_exitfuncs(); print(gc.get_freeze_count() > 10_000)"
    )
    command = [sys.executable, "-c", code, str(policy(tmp_path))]
    env = {**os.environ, "SCOPEGATE_STARTS_KEY": KEY}
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=env)
    assert done.stdout.split() == ["0", "True", "True"]


def test_garbage_is_collected_while_a_gateway_serves() -> None:
    code = (
        "import gc; gc.disable(); from gateway.server.process import prepare_process; "
        "prepare_process(); print(gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "True\n"
