"""GET /api/measurements: lists, whole measurements, and predictions where the scenario allows one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.disk import write_json
from app.main import create_app
from app.settings import Settings
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.measurement import Origin
from estimator.scenario.op_list import from_json
from tests.app.examples import LLAMA, MEASUREMENT
from tests.app.importers.test_tools import MEGATRON


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return tmp_path_factory.mktemp("samples")


@pytest.fixture(scope="module")
def client(samples, tmp_path_factory):
    partial = dataclasses.replace(MEASUREMENT, scenario={"training": {"seq_len": 1024}}, label="partial", steps_s=())
    write_json(samples / "partial.json", encode(partial))
    write_json(samples / "whole.json", encode(MEASUREMENT))
    settings = Settings(data=tmp_path_factory.mktemp("data"), samples=samples, probe_cpu=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as found:
        yield found


def test_the_list_says_what_each_has(client):
    answer = client.get("/api/measurements").json()
    partial, whole = answer["measurements"]
    assert whole == {
        "id": "whole",
        "label": "a measured step",
        "origin": {"kind": "run", "format": "step", "producer": "headroom", "version": "0.1.0"},
        "status": "ok",
        "device_name": "NVIDIA A100",
        "world_size": 1,
        "step_time_s": 0.011,
        "peak_bytes": 1e9,
        "rows": 0,
        "kernels": 1,
        "created_s": 0.0,
        "has_scenario": True,
        "bundled": True,
        "upload_id": "",
        "scenario": MEASUREMENT.scenario,
        "disturbance": 0.0,
        "tokens_per_s": None,
        "device_kind": "",
    }
    alone = client.post("/api/estimate", json=whole["scenario"]).json()
    whole_one = client.get("/api/measurements/whole").json()
    assert (whole_one["step_s"], whole_one["disturbance"]) == (0.011, 0.0)
    assert client.get("/api/measurements/partial").json()["step_s"] is None
    nothing, predicted = answer["predicted"]
    assert nothing is None
    assert (predicted["step_time_s"], predicted["mfu"]) == (alone["step_time_s"], alone["mfu"])
    assert predicted["peak_bytes"] == alone["memory"]["peak_bytes"]
    assert partial["step_time_s"] is None
    assert partial["has_scenario"] is False


def test_the_list_comes_in_pages(client):
    first = client.get("/api/measurements?limit=1").json()
    assert ([one["id"] for one in first["measurements"]], first["next"]) == (["partial"], "partial")
    rest = client.get("/api/measurements", params={"limit": 1, "after": first["next"]}).json()
    assert ([one["id"] for one in rest["measurements"]], rest["next"]) == (["whole"], "")
    assert first["predicted"] + rest["predicted"] == client.get("/api/measurements").json()["predicted"]
    assert client.get("/api/measurements?after=gone").status_code == 404
    assert client.get("/api/measurements?limit=-1").status_code == 422


def test_a_whole_scenario_brings_its_prediction(client):
    found = client.get("/api/measurements/whole").json()
    assert found["kernels"][0]["name"] == "gemm"
    alone = client.post("/api/estimate", json=found["scenario"]).json()
    assert found["prediction"] == alone
    assert client.get("/api/measurements/partial").json()["prediction"] is None


RING = {"kind": "all-reduce", "library": "nccl", "ranks": 2, "bytes": 2.0**28, "status": "ok", "slowest_median_s": 1e-3}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    samples = tmp_path_factory.mktemp("tables")
    origin = Origin(kind="run", format="collectives")
    table = dataclasses.replace(MEASUREMENT, origin=origin, device={"name": "NVIDIA H200"}, rows=(RING, {}))
    write_json(samples / "table.json", encode(table))
    write_json(samples / "nowhere.json", encode(dataclasses.replace(table, device={})))
    write_json(samples / "elsewhere.json", encode(dataclasses.replace(table, device={"name": "Chip 9000"})))
    write_json(samples / "processor.json", encode(dataclasses.replace(table, device={"kind": "cpu", "name": "Cores"})))
    precision = dataclasses.replace(table, origin=Origin(kind="run", format="precision"))
    write_json(samples / "precision.json", encode(precision))
    write_json(samples / "long.json", encode(dataclasses.replace(table, rows=(RING,) * 5001)))
    settings = Settings(data=tmp_path_factory.mktemp("data"), samples=samples, probe_cpu=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as found:
        yield found


def test_rows_are_predicted_on_what_they_ran_on_or_on_the_chip_asked_for(tables):
    found = tables.get("/api/measurements/table/rows").json()
    assert found["chip"] == "NVIDIA H200 SXM 141 GB"
    assert [set(row) for row in found["rows"]] == [{"slowest_median_s"}, set()]
    assert found["errors"]["slowest_median_s"]["n"] == 1
    other = tables.get("/api/measurements/table/rows?chip=a100-80gb-sxm").json()
    assert other["rows"][0]["slowest_median_s"] > found["rows"][0]["slowest_median_s"]
    assert tables.get("/api/measurements/nowhere/rows?chip=h200-sxm").json() == found


@pytest.mark.parametrize(
    ("measurement", "why"),
    [
        ("nowhere", "the measurement does not say what it ran on"),
        ("elsewhere", "'Chip 9000' is not in the catalogue"),
        ("processor", "this CPU is not measured, because the probe is switched off"),
        ("precision", "the estimator has no formula for such rows"),
        ("long", "5,001 rows are more than the 5,000"),
    ],
)
def test_what_a_measurement_does_not_say_or_nobody_knows_is_an_answer(tables, measurement, why):
    response = tables.get(f"/api/measurements/{measurement}/rows")
    assert response.status_code == 200
    found = response.json()
    assert not any(found["rows"])
    assert found["errors"] == {}
    assert why in found["unpredicted"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("nowhere/rows?chip=h999", 422, "'h999' is not in the catalogue"),
        ("nowhere/rows?chip=cpu", 422, "CPU"),
        ("none/rows", 404, "no such measurement"),
    ],
)
def test_rows_that_cannot_be_predicted_say_why(tables, path, status, words):
    response = tables.get(f"/api/measurements/{path}")
    assert response.status_code == status
    assert words in response.json()["detail"]


@pytest.mark.parametrize("name", ["none", "..%2fwhole", "whole.json", "%00"])
def test_an_unknown_one_is_not_found(client, name):
    response = client.get(f"/api/measurements/{name}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_one_whose_file_has_gone_is_not_found(client, samples):
    (samples / "whole.json").unlink()
    assert client.get("/api/measurements/whole").status_code == 404


TRACE = Path(__file__).parents[2] / "reference" / "h200" / "trace-short-2.trace.json.gz"


@pytest.fixture
def profile(client):
    found = client.put("/api/uploads", params={"filename": TRACE.name}, content=TRACE.read_bytes()).json()
    yield found["measurements"][0]["id"]
    client.delete(f"/api/uploads/{found['upload_id']}")


def test_a_profile_brings_its_op_list_its_own_prediction_and_the_scenario_that_it_may_be_of(client, profile):
    found = client.get(f"/api/measurements/{profile}").json()
    assert found["prediction"] is None
    assert found["expected"]["chip"] == "h200-sxm"
    step_s = found["expected"]["estimate"]["step_time_s"]
    assert step_s == pytest.approx(found["steps_s"][0], rel=0.05)
    assert found["proposed"]["fields"]["model.hidden"] == {
        "value": 2048, "sure": True,
        "evidence": "the token table has 128256 × 2048, and products take 2048 in",
    }  # fmt: skip
    ops = client.get(f"/api/measurements/{profile}/ops").json()
    assert ops["source"] == "profile"
    assert from_json(ops).parameters == 384_313_344
    assert client.post("/api/estimate", json=ops).json()["step_time_s"] == pytest.approx(step_s)
    assert client.get("/api/measurements/partial").json()["expected"] is None
    assert client.get("/api/measurements/partial/ops").status_code == 404


def test_a_confirmed_scenario_is_the_measurement_s_own(client, profile):
    before = client.get(f"/api/measurements/{profile}").json()
    scenario = before["proposed"]["scenario"]
    answer = client.put(f"/api/measurements/{profile}/scenario", json=scenario)
    assert answer.status_code == 200, answer.text
    assert answer.json()["scenario"] == scenario
    assert answer.json()["prediction"]["step_time_s"] == pytest.approx(before["steps_s"][0], rel=0.1)
    again = client.get(f"/api/measurements/{profile}").json()
    assert again["scenario"] == scenario
    assert again["expected"] == before["expected"]
    (line,) = [one for one in client.get("/api/measurements").json()["measurements"] if one["id"] == profile]
    assert line["has_scenario"]


@pytest.mark.parametrize(
    ("where", "body", "status"),
    [("whole", LLAMA, 404), ("nobody", LLAMA, 404), ("", {"model": "no-such-model"}, 422), ("", [], 422)],
)
def test_what_cannot_be_confirmed_is_refused(client, profile, where, body, status):
    answer = client.put(f"/api/measurements/{where or profile}/scenario", json=body)
    assert answer.status_code == status
    assert client.get(f"/api/measurements/{profile}").json()["scenario"] == {}


def test_a_table_s_device_is_asked_for_and_then_known(client):
    text = "model  batch  seq_len  dtype  forward (ms)  backward (ms)\ngpt2  4  512  bf16  30.1  61.0\n"
    text = f"GPU: NVIDIA A100-SXM4-80GB\n\n{text}"
    found = client.put("/api/uploads", params={"filename": "steps.txt"}, content=text.encode()).json()
    where = f"/api/measurements/{found['measurements'][0]['id']}"
    before = client.get(where).json()["device"]
    assert before["candidates"] == [{"chip": "a100-80gb-sxm", "why": "the text names it: GPU: NVIDIA A100-SXM4-80GB"}]
    asked = client.get(f"{where}/rows").json()
    assert (asked["rows"], asked["errors"]) == ([{}], {})
    assert client.put(f"{where}/device", json={"chip": "no-such-chip"}).status_code == 422
    assert client.put("/api/measurements/whole/device", json={"chip": "h100-sxm"}).status_code == 404
    answer = client.put(f"{where}/device", json={"chip": "h100-sxm"})
    assert answer.status_code == 200, answer.text
    named = {"name": "NVIDIA H100 SXM 80 GB", "candidates": before["candidates"]}
    assert client.get(where).json()["device"] == named, "it may be asked for again"
    known = client.get(f"{where}/rows").json()
    assert known["chip"] == "NVIDIA H100 SXM 80 GB"
    assert set(known["errors"]) == {"forward_s", "backward_s"}
    client.delete(f"/api/uploads/{found['upload_id']}")


def test_a_log_lacks_only_its_cluster(client):
    found = client.put("/api/uploads", params={"filename": "megatron.log"}, content=MEGATRON.encode()).json()
    where = f"/api/measurements/{found['measurements'][0]['id']}"
    before = client.get(where).json()
    assert (before["device"], before["prediction"]) == ({"candidates": []}, None)
    known = client.put(f"{where}/device", json={"chip": "h100-sxm"}).json()
    cluster = known["scenario"]["cluster"]
    assert (cluster["chip"], cluster["chips_per_node"], cluster["nodes"]) == ("h100-sxm", 8, 1)
    assert known["prediction"]["chips"] == known["world_size"] == 8
    client.delete(f"/api/uploads/{found['upload_id']}")


def test_a_log_that_names_all_of_its_run_is_proposed_and_answered_in_one_go(client):
    run = '"model": "gpt2-xl", "gpu": "H100", "gpus": 8, "batch": 64, "sequence": 1024, "sharding": "fsdp"'
    text = "".join(f'{{{run}, "step": {at}, "step_time_s": 0.4{at}}}\n' for at in range(4))
    found = client.put("/api/uploads", params={"filename": "run.jsonl"}, content=text.encode()).json()
    where = f"/api/measurements/{found['measurements'][0]['id']}"
    before = client.get(where).json()
    assert (before["prediction"], before["proposed"]["whole"]) == (None, True)
    assert before["proposed"]["scenario"]["plan"]["sharding"] == "fsdp"
    on_h100 = client.put(f"{where}/device", json={"chip": "h100-sxm"}).json()
    assert on_h100["scenario"]["plan"] == before["proposed"]["scenario"]["plan"]
    assert on_h100["scenario"]["cluster"]["chip"] == "h100-sxm"
    assert (on_h100["proposed"], on_h100["device"]["name"]) == (None, "NVIDIA H100 SXM 80 GB")
    step_s = on_h100["prediction"]["step_time_s"]
    assert client.get(f"{where}/rows").json()["rows"][1]["step_s"] == pytest.approx(step_s)
    # another answer completes anew what the file says, here with fewer sequences at a time
    on_l4 = client.put(f"{where}/device", json={"chip": "l4"}).json()
    assert on_l4["scenario"]["cluster"]["chip"] == "l4"
    assert on_l4["scenario"]["plan"]["micro_batch"] < on_h100["scenario"]["plan"]["micro_batch"]
    assert client.put(f"{where}/device", json={"chip": "h100-sxm"}).json()["scenario"] == on_h100["scenario"]
    client.delete(f"/api/uploads/{found['upload_id']}")


RUN = {"model": "gpt2-xl", "gpu": "H100 SXM", "gpus": 8, "global_batch": 64, "sequence": 1024, "sharding": "fsdp"}


@pytest.mark.parametrize(
    ("lacks", "asked", "answer"),
    [
        ("model", ["model"], "gpt2-xl"),
        ("sequence", ["seq_len"], 1024),
        ("global_batch", ["global_batch"], 64),
        ("gpus", ["gpus"], 8),
        ("gpu", ["chip"], "h100-sxm"),
    ],
)
def test_what_a_log_leaves_out_is_asked_for_and_the_rest_of_it_kept(client, lacks, asked, answer):
    def brought(run: dict) -> tuple[str, str]:
        text = "".join(json.dumps({**run, "step": at, "step_time_s": 0.4 + at / 100}) + "\n" for at in range(4))
        found = client.put("/api/uploads", params={"filename": "run.jsonl"}, content=text.encode()).json()
        return found["upload_id"], f"/api/measurements/{found['measurements'][0]['id']}"

    whole_upload, whole = brought(RUN)
    expected = client.put(f"{whole}/device", json={"chip": "h100-sxm"}).json()
    upload, where = brought({name: value for name, value in RUN.items() if name != lacks})
    proposed = client.get(where).json()["proposed"]
    assert proposed["asked"] == asked
    said = {path: one["value"] for path, one in proposed["fields"].items() if one["sure"]}
    known = {"model.name": "GPT-2 XL", "plan.dp": 8, "training.global_batch": 64, "training.seq_len": 1024}
    gone = {"model": "model.name", "sequence": "training.seq_len", "global_batch": "training.global_batch",
            "gpus": "plan.dp"}  # fmt: skip
    assert {path: said.get(path) for path in known if path != gone.get(lacks)} == {
        path: value for path, value in known.items() if path != gone.get(lacks)
    }
    guessed = proposed["fields"].get("plan.dp") if lacks == "gpus" else None
    assert guessed is None or (guessed["value"], guessed["sure"]) == (1, False), "one GPU is a guess, and says so"
    for wrong in (
        {"seq_len": 0},
        {"gpus": True},
        {"model": {"layers": 2}},
        {"model": 5},
        {"name": "x"},
        [],
        {"model": "no-such-model"},
    ):
        assert client.put(f"{where}/answers", json=wrong).status_code == 422, wrong
    known = client.put(f"{where}/answers", json={asked[0]: answer}).json()
    assert known["scenario"] == expected["scenario"]
    assert known["world_size"] == 8
    assert known["prediction"]["step_time_s"] == expected["prediction"]["step_time_s"]
    assert client.get(where).json()["proposed"] is None
    mine = {"name": "mine", "layers": 2, "hidden": 128, "heads": 2, "ffn": 512, "vocab": 512}
    its = client.put(f"{where}/answers", json={"model": mine}).json()
    assert (its["scenario"]["model"]["name"], its["prediction"]["chips"]) == ("mine", 8), "a model of one's own"
    client.put(f"{where}/answers", json={"model": "gpt2-xl"})
    other = [client.put(f"{one}/device", json={"chip": "l4"}).json()["scenario"] for one in (where, whole)]
    assert other[0] == other[1], "another chip completes what was said anew"
    client.delete(f"/api/uploads/{whole_upload}")
    client.delete(f"/api/uploads/{upload}")


def test_a_trainer_s_state_is_asked_for_what_it_does_not_say(client):
    rates = {"train_runtime": 600.0, "train_samples_per_second": 7.99, "train_steps_per_second": 0.5}
    state = {
        "global_step": 300, "train_batch_size": 4, "num_input_tokens_seen": 300 * 16 * 2048,
        "log_history": [{"loss": 2.0, "step": 150}, {"step": 300, **rates}],
    }  # fmt: skip
    where = "/api/uploads"
    found = client.put(where, params={"filename": "trainer_state.json"}, content=json.dumps(state).encode()).json()
    (one,) = found["measurements"]
    where = f"/api/measurements/{one['id']}"
    proposed = client.get(where).json()["proposed"]
    assert proposed["asked"] == ["model", "gpus", "chip"]
    said = {path: field["value"] for path, field in proposed["fields"].items() if field["sure"]}
    assert said == {"plan.micro_batch": 4, "training.framework": "trainer", "training.global_batch": 16,
                    "training.seq_len": 2048}  # fmt: skip
    (listed,) = [each for each in client.get("/api/measurements").json()["measurements"] if each["id"] == one["id"]]
    assert listed["world_size"] == 0, "nobody knows how many there were"
    known = client.put(f"{where}/answers", json={"model": "gpt2-xl", "gpus": 2, "chip": "h100-sxm"}).json()
    assert (known["world_size"], known["scenario"]["plan"]["dp"], known["scenario"]["plan"]["micro_batch"]) == (2, 2, 4)
    assert known["prediction"]["step_time_s"] > 0
    client.delete(f"/api/uploads/{found['upload_id']}")


def test_a_confirmed_scenario_answers_on_what_a_log_ran(client):
    found = client.put("/api/uploads", params={"filename": "megatron.log"}, content=MEGATRON.encode()).json()
    where = f"/api/measurements/{found['measurements'][0]['id']}"
    assert client.put(f"{where}/scenario", json=LLAMA).json()["device"]["name"] == "NVIDIA H200 SXM 141 GB"
    client.delete(f"/api/uploads/{found['upload_id']}")


def test_an_op_list_uploads_like_any_other_file(client, profile):
    ops = client.get(f"/api/measurements/{profile}/ops").content
    found = client.put("/api/uploads", params={"filename": "ops.json"}, content=ops).json()
    (summary,) = found["measurements"]
    assert summary["origin"]["format"] == "ops"
    one = client.get(f"/api/measurements/{summary['id']}").json()
    assert one["expected"] == client.get(f"/api/measurements/{profile}").json()["expected"]
    client.delete(f"/api/uploads/{found['upload_id']}")
    broken = client.put("/api/uploads", content=ops.replace(b'"count":', b'"cuont":', 1))
    assert broken.status_code == 422
    assert "ops" in broken.json()["format"]


def test_rows_of_an_uploaded_table_are_predicted_on_the_gpus_that_they_name(client):
    text = "model,GPU,GPUs,batch,seq len,step (ms)\ngpt2,H100,8,64,1024,50\ngpt2,A100,1,8,1024,90\n"
    found = client.put("/api/uploads", params={"filename": "steps.csv"}, content=text.encode()).json()
    rows = f"/api/measurements/{found['measurements'][0]['id']}/rows"
    unasked, asked = client.get(rows).json(), client.get(f"{rows}?chip=a100-40gb-sxm").json()
    assert [set(row) for row in unasked["rows"]] == [{"step_s"}, set()]
    assert [set(row) for row in asked["rows"]] == [{"step_s"}, {"step_s"}]
    assert asked["rows"][0] == unasked["rows"][0]
    client.delete(f"/api/uploads/{found['upload_id']}")


def test_what_the_gpus_of_a_table_are_called_can_be_corrected(client):
    text = "model,GPU,batch,seq len,step (ms)\ngpt2,H100,8,1024,50\ngpt2,B9,8,1024,90\ngpt2,A100,8,1024,90\n"
    found = client.put("/api/uploads", params={"filename": "steps.csv"}, content=text.encode()).json()
    where = f"/api/measurements/{found['measurements'][0]['id']}"
    h100 = "NVIDIA H100 SXM 80 GB"
    assert client.get(f"{where}/rows").json()["names"] == {"H100": h100, "B9": "", "A100": ""}

    def said(chip, name):
        assert client.put(f"{where}/device", json={"chip": chip, "name": name}).status_code == 200
        return client.get(f"{where}/rows").json()

    own = {**encode(catalog.chip("h100-sxm")), "name": "mine", "label": "Mine", "bf16_flops_per_s": 100e12}
    before = said("h200-sxm", "B9")
    assert before["names"] == {"H100": h100, "B9": "NVIDIA H200 SXM 141 GB", "A100": ""}
    # a name that the catalogue knows may be another machine of the reader's, one of their own
    after = said(own, "H100")
    assert after["names"]["H100"] == "Mine"
    assert after["rows"][0]["step_s"] > 1.5 * before["rows"][0]["step_s"]
    assert after["rows"][1] == before["rows"][1]
    assert "named" not in client.get(where).json()["device"], "A100 is of either memory"
    assert said("a100-80gb-sxm", "A100")["unpredicted"] == ""
    assert client.get(where).json()["device"]["named"]
    assert said("", "H100")["rows"][0] == before["rows"][0]
    for name in ("H100", "A100"):
        said("h200-sxm", name)
    assert client.get(where).json()["device"]["name"] == "NVIDIA H200 SXM 141 GB"
    said("", "A100")
    assert "name" not in client.get(where).json()["device"]
    for wrong in ({"chip": "h100-sxm", "name": "C7"}, {"chip": "no-such", "name": "B9"}, {"name": "B9"}, []):
        assert client.put(f"{where}/device", json=wrong).status_code == 422
    client.delete(f"/api/uploads/{found['upload_id']}")


def test_a_table_may_have_run_on_a_chip_of_one_s_own(client):
    own = {**encode(catalog.chip("h100-sxm")), "name": "mine", "label": "Mine", "memory_bytes_per_s": 1e12}
    runs = (
        "hardware,n_gpus,model,n_layers,d_model,n_heads,seq_len,global_batch,precision,measured_step_time_s\n"
        "B9,1,gpt2,12,768,12,1024,8,bf16-amp,0.1\n"
    )
    for text in ("model,batch,seq len,step (ms)\ngpt2,8,1024,50\n", runs):
        found = client.put("/api/uploads", params={"filename": "steps.csv"}, content=text.encode()).json()
        where = f"/api/measurements/{found['measurements'][0]['id']}"
        asked = client.get(f"{where}/rows", params={"chip": json.dumps(own)}).json()
        slower = asked["rows"][0]
        assert (asked["chip"], len(slower) > 0) == ("Mine", True), asked
        assert client.put(f"{where}/device", json={"chip": own}).status_code == 200
        assert client.get(where).json()["device"]["name"] == "Mine"
        assert client.get(f"{where}/rows").json()["rows"][0] == slower
        assert client.put(f"{where}/device", json={"chip": "h100-sxm"}).status_code == 200
        faster = client.get(f"{where}/rows").json()["rows"][0]
        assert all(faster[name] < slower[name] for name in slower if name.endswith("step_s"))
        assert client.get(f"{where}/rows", params={"chip": "{"}).status_code == 422
        client.delete(f"/api/uploads/{found['upload_id']}")
