"""The OpenAPI file against the running server, by schemathesis.

At stake: docs/openapi.yaml is what the server does. What it calls wrong is refused in the dialect's
shape, what comes back fits its schemas, nothing in between makes a 5xx or a broken reply.
"""
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

SPEC = pathlib.Path("docs/openapi.yaml")
REQUESTS = ("Generation", "ResponseRequest", "MessageRequest")
# A request that fits the schema may still be refused for what it means: its order of roles, a
# control token, a length. `allow` is the same for all paths below /v1/responses/.
EXCLUDED = "positive_data_acceptance,allow_header_conformance"


@pytest.fixture(scope="module")
def server(scripted):
    return scripted([{"choices": [["I think.</think>Hello."], ["</think>Yes."]]}])


def spec_for_the_model():
    """The spec, with the only model's name, so that requests come as far as the model."""
    spec = yaml.safe_load(SPEC.read_text(encoding="utf-8"))
    for name in REQUESTS:
        spec["components"]["schemas"][name]["properties"]["model"] = {"enum": ["scripted"]}
    return spec


def test_the_server_does_what_the_file_says(server, tmp_path):
    path = tmp_path / "openapi.yaml"
    path.write_text(yaml.safe_dump(spec_for_the_model(), sort_keys=False), encoding="utf-8")
    examples = 200 if os.environ.get("LINESHAFT_FULL") else 10
    done = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "st"), "run", path, "--url", server.url,
         "--seed", "1", "-n", str(examples), "--continue-on-failure", "--request-timeout", "20",
         "--warnings", "off", "--exclude-checks", EXCLUDED],
        capture_output=True, text=True, timeout=280, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    assert server.process.poll() is None


def test_every_route_of_the_server_stands_in_the_file():
    source = pathlib.Path("src/api/server.cc").read_text(encoding="utf-8")
    routes = set(re.findall(r'\{"([A-Z]+)", "(/[^"]*)", (?:true|false), &Impl::', source))
    assert len(routes) >= 18
    spec = yaml.safe_load(SPEC.read_text(encoding="utf-8"))
    told = {(method.upper(), path) for path, item in spec["paths"].items()
            for method in item if method in ("get", "post", "delete", "put", "patch")}
    for method, path in routes:
        begins = [p for m, p in told if m == method and
                  (p == path or (path.endswith("/") and p.startswith(path + "{")))]
        assert begins, f"{method} {path} is not in {SPEC}"


def test_every_route_of_the_file_is_one_of_the_server(server):
    spec = yaml.safe_load(SPEC.read_text(encoding="utf-8"))
    for path, item in spec["paths"].items():
        status, headers, _ = server.ask("OPTIONS", path.replace("{id}", "x"))
        assert status == 204, path
        for method in set(item) & {"get", "post", "delete"}:
            assert method.upper() in headers["allow"], (method, path)
