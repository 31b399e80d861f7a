"""This CPU: really measured, once, kept for the next server, and refused with the reason until then."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.disk import DataFolder, write_json
from app.main import create_app
from app.this_cpu import ThisCpu, wants_cpu
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.problems import InputProblems
from runners.backends.processes import MARK, any_at_work
from tests.app.examples import scenario
from tests.app.waiting import until

CPU_SCENARIO = scenario(cluster__chip="cpu")


pytestmark = pytest.mark.usefixtures("catalogue_as_before")


@pytest.fixture
def data(tmp_path):
    folder = DataFolder(tmp_path / "data")
    folder.create()
    return folder


def test_the_server_measures_this_cpu_once_without_keeping_the_page_waiting(settings, monkeypatch):
    monkeypatch.setattr("app.this_cpu.LEAST_SHARE_FRAC", 0.0)  # other tests use the CPU
    chosen = settings.model_copy(update={"probe_cpu": True, "probe_seconds": 0.5})
    with TestClient(create_app(chosen), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/").status_code == 200
        (pending,) = client.get("/api/catalog").json()["pending"]
        assert (pending["key"], pending["state"]) == ("cpu", "probing")
        early = client.post("/api/estimate", json=CPU_SCENARIO)
        assert early.status_code == 422
        assert "being measured" in early.json()["problems"][0]["message"]
        assert "Try again" in early.json()["problems"][0]["remedy"]

        until(lambda: client.get("/api/health").json()["this_cpu"] == "ready")
        document = client.get("/api/catalog").json()
        assert document["pending"] == []
        (cpu,) = [entry for entry in document["chips"] if entry["key"] == "cpu"]
        assert cpu["value"]["name"] == "cpu"
        assert cpu["value"]["fp32_flops_per_s"] > 1e8
        assert cpu["value"]["memory_bytes_per_s"] > 1e8
        assert "measured here" in cpu["sources"]["fp32_flops_per_s"]
        found = client.post("/api/estimate", json=CPU_SCENARIO)
        assert found.status_code == 200
        job = client.post("/api/runs?dry_run=true", json={"scenario": CPU_SCENARIO})
        assert job.status_code == 200

    (kept,) = (settings.data / "cache").glob("cpu-*.json")
    written_ns = kept.stat().st_mtime_ns
    catalog._added.clear()
    with TestClient(create_app(chosen), base_url="http://127.0.0.1:8000") as client:
        until(lambda: client.get("/api/health").json()["this_cpu"] == "ready")
        assert client.post("/api/estimate", json=CPU_SCENARIO).json() == found.json()
    assert kept.stat().st_mtime_ns == written_ns


@pytest.mark.parametrize(("share_frac", "again"), [(0.3, True), (0.8, False)])
def test_what_was_measured_while_others_used_the_cpu_is_measured_again(data, monkeypatch, caplog, share_frac, again):
    kept = {"chip": encode(replace(catalog.chip("a100"), kind="cpu")), "samples": {"cpu_share_frac": share_frac}}
    write_json(ThisCpu(data, 0.1).cache_file, kept)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    cpu = ThisCpu(data, 0.1)
    assert cpu.load(), "a command takes what there is"
    (cpu_entry,) = [entry for entry in catalog.entries("chips") if entry.key == "cpu"]
    assert ("30 % of them were left" in cpu_entry.sources["memory_bytes"]) is again
    assert caplog.text == "", "what was measured before is told once, by its source"
    asyncio.run(cpu.ensure())
    assert ("could not be measured" in caplog.text) is again
    assert cpu.state == "ready", "what there is serves on"


PROBE = """#!/bin/sh
while [ "$1" != --out ]; do shift; done
cp {chip} "$2"
"""


@pytest.mark.parametrize(("share_frac", "doubted"), [(0.11, True), (0.8, False)])
def test_a_prediction_for_a_cpu_that_was_busy_when_it_was_measured_is_doubted(data, share_frac, doubted):
    kept = {"chip": encode(replace(catalog.chip("a100"), kind="cpu")), "samples": {"cpu_share_frac": share_frac}}
    write_json(ThisCpu(data, 0.1).cache_file, kept)
    cpu = ThisCpu(data, 0.1)
    assert cpu.doubts() == {}
    assert cpu.load()
    assert list(cpu.doubts()) == (["cpu"] if doubted else [])
    assert all("left 11 % of it" in words for words in cpu.doubts().values())


@pytest.mark.parametrize(("share_frac", "kept_frac"), [(0.2, 0.3), (0.4, 0.4), (0.9, 0.9)])
def test_of_two_measurements_the_one_that_had_more_of_the_cpu_is_kept(data, monkeypatch, caplog, share_frac, kept_frac):
    def measured(frac):
        chip = replace(catalog.chip("a100"), kind="cpu", memory_bytes=frac * 1e9)
        return {"chip": encode(chip), "samples": {"cpu_share_frac": frac}}

    cpu = ThisCpu(data, 0.1)
    write_json(cpu.cache_file, measured(0.3))
    write_json(data.root / "probed.json", measured(share_frac))
    probe = data.root / "python"
    probe.write_text(PROBE.format(chip=data.root / "probed.json"))
    probe.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(probe))
    asyncio.run(cpu.ensure())
    assert (cpu.state, cpu.share_frac) == ("ready", kept_frac)
    assert catalog.chip("cpu").memory_bytes == kept_frac * 1e9
    assert json.loads(cpu.cache_file.read_text()) == measured(kept_frac)
    assert ("busy while it was measured" in caplog.text) is (share_frac < 0.5)


def test_what_was_measured_is_measured_again_for_who_asks_and_serves_until_then(data, monkeypatch):
    def measured(frac):
        chip = replace(catalog.chip("a100"), kind="cpu", memory_bytes=frac * 1e9)
        return {"chip": encode(chip), "samples": {"cpu_share_frac": frac}}

    async def ask():
        await cpu.ensure()
        assert (cpu.share_frac, cpu.measuring) == (0.6, False)
        assert cpu.measure_again()
        assert cpu.measure_again(), "asked for twice it is measured once"
        await asyncio.sleep(0)
        assert (cpu.state, cpu.measuring, cpu.finished.is_set()) == ("ready", True, False), "runs wait"
        await asyncio.wait_for(cpu.finished.wait(), 60)
        await cpu.stop()

    cpu = ThisCpu(data, 0.1)
    write_json(cpu.cache_file, measured(0.6))
    write_json(data.root / "probed.json", measured(0.7))
    probe = data.root / "python"
    probe.write_text(PROBE.format(chip=data.root / "probed.json"))
    probe.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(probe))
    asyncio.run(ask())
    assert (cpu.state, cpu.share_frac, cpu.measuring) == ("ready", 0.7, False)
    assert not ThisCpu(data, 0.1, enabled=False).measure_again()


def test_it_is_not_measured_again_beside_a_run_that_another_process_began(settings, monkeypatch):
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        monkeypatch.setattr(client.app.state.context.cpu, "state", "ready")
        # of this server, and of another with a data folder of its own
        for place in (settings.data / "runs", settings.data.parent / "others" / "runs"):
            with subprocess.Popen(["sleep", "30"], env={MARK: str(place / "one")}) as other:
                while MARK not in Path(f"/proc/{other.pid}/environ").read_text():
                    pass  # it has begun, but the kernel does not tell its environment yet
                found = any_at_work()
                asked = client.post("/api/this-cpu").json()
                other.kill()
            assert found
            assert (asked["measuring"], asked["message"][:19]) == (False, "A run is under way ")


@pytest.mark.parametrize("left", [None, "{"])
def test_what_serves_is_measured_again_though_its_file_is_gone_or_damaged(data, monkeypatch, left):
    def measured(frac):
        chip = replace(catalog.chip("a100"), kind="cpu", memory_bytes=frac * 1e9)
        return {"chip": encode(chip), "samples": {"cpu_share_frac": frac}}

    cpu = ThisCpu(data, 0.1)
    write_json(cpu.cache_file, measured(0.6))
    assert cpu.load()
    cpu.cache_file.unlink() if left is None else cpu.cache_file.write_text(left)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    asyncio.run(cpu.ensure(again=True))
    assert (cpu.state, cpu.share_frac) == ("ready", 0.6), "what serves is there where measuring fails"
    write_json(data.root / "probed.json", measured(0.7))
    probe = data.root / "python"
    probe.write_text(PROBE.format(chip=data.root / "probed.json"))
    probe.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(probe))
    asyncio.run(cpu.ensure(again=True))
    assert (cpu.state, cpu.share_frac) == ("ready", 0.7)
    assert json.loads(cpu.cache_file.read_text()) == measured(0.7)


def test_a_probe_that_cannot_work_says_why(data, monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    cpu = ThisCpu(data, 0.1)
    asyncio.run(cpu.ensure())
    assert cpu.state == "failed"
    with pytest.raises(InputProblems, match=r"could not be measured: .*No such file") as caught:
        cpu.refuse_unprobed(CPU_SCENARIO)
    assert caught.value.problems[0].remedy == "Choose another chip, or measure this CPU again."
    assert cpu.finished.is_set(), "runs must not wait for ever"


def test_a_kept_result_that_is_damaged_counts_as_none(data):
    cpu = ThisCpu(data, 0.1)
    chip = encode(replace(catalog.chip("a100"), kind="cpu"))
    samples = ([], "x", {"cpu_share_frac": "much"}, {"cpu_share_frac": None}, {"cpu_share_frac": 10**400})
    damaged = [{}, [], {"chip": {}}, {"chip": 3}, {"chip": {"memory_bytes": -1}}]
    damaged += [{"chip": chip, "samples": one} for one in samples]
    for text in ("{", "[" * 100_000, *map(json.dumps, damaged)):
        cpu.cache_file.write_text(text)
        assert cpu.load() is False, text[:40]
    assert cpu.state == "waiting"


def test_a_damaged_result_is_measured_anew_and_keeps_no_run_waiting(data, monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    cpu = ThisCpu(data, 0.1)
    chip = encode(replace(catalog.chip("a100"), kind="cpu"))
    write_json(cpu.cache_file, {"chip": chip, "samples": []})
    asyncio.run(cpu.ensure())
    assert cpu.state == "failed"
    assert cpu.finished.is_set()


def test_a_probe_ends_with_its_server(settings):
    chosen = settings.model_copy(update={"probe_cpu": True, "probe_seconds": 600.0})
    with TestClient(create_app(chosen), base_url="http://127.0.0.1:8000") as client:
        until(lambda: list((settings.data / "cache").glob("tmp*")))
        assert client.get("/api/health").json()["this_cpu"] == "probing"
    assert list((settings.data / "cache").glob("tmp*")) == []


@pytest.mark.parametrize("cluster", ["cpu", "CPU", {"chip": "cpu"}, {"chip": "this CPU"}, {"chip": "this-cpu"}])
def test_these_want_this_cpu(cluster):
    assert wants_cpu({"cluster": cluster})


@pytest.mark.parametrize(
    "document", [None, [], {}, {"cluster": None}, {"cluster": {"chip": {"name": "cpu"}}}, {"cluster": "h200-sxm"}]
)
def test_these_do_not(document):
    assert not wants_cpu(document)
