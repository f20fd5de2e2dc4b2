"""A cluster for all tests and a namespace for each test."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator

import pytest

from e2e.harness import Cluster
from e2e.report import Report

CLUSTER = pytest.StashKey[Cluster]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-transcripts", action="store_true", help="regenerate recorded fixtures"
    )
    parser.addoption("--write-verified", action="store_true", help="regenerate docs/verified.md")


def pytest_configure(config: pytest.Config) -> None:
    # Shells ignore SIGINT for background jobs, and child processes would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Report(config), "verified")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Start a cluster with all components but without nodes, which tests add."""
    with Cluster() as started:
        request.config.stash[CLUSTER] = started
        yield started


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Create a namespace; afterwards delete it and the nodes that the test added."""
    before = {node["metadata"]["name"] for node in cluster.list("v1/Node")}
    name = cluster.new_namespace()
    yield name
    cluster.delete_namespace(name)
    after = {node["metadata"]["name"] for node in cluster.list("v1/Node")}
    cluster.remove_nodes(after - before)


@pytest.fixture(scope="module")
def dry_run_ns(cluster: Cluster) -> Iterator[str]:
    """Create a namespace for dry runs."""
    name = cluster.new_namespace()
    yield name
    cluster.delete_namespace(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the programs' logs to failures."""
    report = yield
    cluster = item.config.stash.get(CLUSTER, None)
    if report.failed and cluster is not None:
        report.sections.append(("logs of the cluster's programs", cluster.log_tails(15)))
    return report
