"""`remat train` and its siblings, as a user runs them: beside transformers and peft, interrupted,
killed, and given what is wrong."""

import json
import os
import random
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("REMAT_BINARY", ROOT / "build" / "release" / "app" / "remat"))
VOCABULARY = 151
STEPS = 8


# ---- What is trained -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        eos_token_id=2,
        initializer_range=0.2,
    )
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def rows(count=12, seed=3):
    """Tokens and marks of rows of different lengths; the first half of a row is a prompt."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        length = draw.randint(8, 20)
        tokens = [draw.randrange(VOCABULARY) for _ in range(length)]
        made.append((tokens, [0] * (length // 2) + [1] * (length - length // 2)))
    return made


def write_tokens(path, made):
    lengths = [len(tokens) for tokens, _ in made]
    save_file(
        {
            "tokens": np.array([t for tokens, _ in made for t in tokens], np.int32),
            "mask": np.array([m for _, marks in made for m in marks], np.uint8),
            "offsets": np.cumsum([0, *lengths]).astype(np.int64),
        },
        path,
    )
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_tokens(tmp_path_factory.mktemp("data") / "train.safetensors", rows())


@pytest.fixture(scope="module")
def adapter(model, tmp_path_factory):
    """An adapter of peft in which B is not zero, so that A gets a gradient from the first step."""
    folder = tmp_path_factory.mktemp("adapter")
    peft_model(model).save_pretrained(folder)
    return folder


def peft_model(model):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(2)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(base, config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return adapted


# ---- How it is run -------------------------------------------------------------------------------


def command(*arguments, **flags):
    words = [str(BINARY), *map(str, arguments)]
    for name, value in flags.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def run(*arguments, code=0, **flags):
    assert BINARY.exists(), f"no {BINARY}: make build"
    done = subprocess.run(
        command(*arguments, **flags), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def metrics(out, event="step"):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def losses(out):
    return [line["loss"] for line in metrics(out)]


@pytest.fixture
def flags(model, data):
    return {
        "model": model,
        "data": data,
        "max_steps": STEPS,
        "learning_rate": 5e-3,
        "per_device_train_batch_size": 2,
        "threads": 1,
    }


# ---- Exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["lora", "full"])
def test_recomputation_changes_no_bit(flags, tmp_path, method):
    found = {}
    for setting in ("none", "full", "sqrt", "every:2", "sqrt + dots_saveable"):
        out = tmp_path / setting.replace(":", "-")
        flags |= {"method": method, "lora_dropout": 0.1, "max_steps": 20}
        run("train", **flags, output_dir=out, activation_checkpointing=setting)
        weights = out / "final" / ("model" if method == "full" else "adapter_model")
        found[setting] = losses(out), weights.with_suffix(".safetensors").read_bytes()
    assert len(found["none"][0]) == 20
    assert all(same == found["none"] for same in found.values())


def one_size(path):
    """Rows of one length: steps of one kind, for one plan."""
    draw = random.Random(5)
    made = [([draw.randrange(VOCABULARY) for _ in range(32)], [1] * 32) for _ in range(8)]
    return write_tokens(path, made)


@pytest.mark.parametrize("budget", ["activation_budget", "memory_budget"])
def test_a_budget_changes_no_bit_and_is_kept(flags, tmp_path, budget):
    flags |= {"data": one_size(tmp_path / "rows.safetensors"), "lora_dropout": 0.1}
    run("train", **flags, output_dir=tmp_path / "plain")
    plain = metrics(tmp_path / "plain")[-1]
    activations = plain["activation_peak_bytes"] * 7 // 10
    weights = plain["peak_memory_bytes"] - plain["activation_peak_bytes"]
    size = activations + (weights if budget == "memory_budget" else 0)
    run("train", **flags, output_dir=tmp_path / "planned", **{budget: size})
    assert losses(tmp_path / "planned") == losses(tmp_path / "plain")
    planned = metrics(tmp_path / "planned")[-1]
    assert planned["ops_replayed"] > 0
    assert 0 < planned["activation_peak_bytes"] <= activations * 1.01


@pytest.fixture
def budget(flags, tmp_path):
    """As much as plain training takes for micro-batches of two rows."""
    flags["data"] = one_size(tmp_path / "rows.safetensors")
    run("train", **flags, output_dir=tmp_path / "plain")
    return metrics(tmp_path / "plain")[-1]["activation_peak_bytes"]


def test_auto_takes_the_most_rows_that_fit(flags, tmp_path, budget):
    auto = flags | {"activation_budget": budget, "per_device_train_batch_size": "auto"}
    shown = run("train", **auto, output_dir=tmp_path / "auto").stdout
    rows = int(re.search(r"batch +\d+ x (\d+) rows", shown)[1])
    assert 2 < rows < 8
    auto["per_device_train_batch_size"] = rows
    run("train", **auto, output_dir=tmp_path / "fits")
    assert losses(tmp_path / "fits") == losses(tmp_path / "auto")
    auto["per_device_train_batch_size"] = 8
    auto["activation_budget"] = budget // 2
    assert "least that fits" in run("train", **auto, output_dir=tmp_path / "more", code=4).stderr


def test_a_plan_of_a_model_leads_its_training(flags, model, tmp_path, budget):
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    step = {"max_length": 32, "per_device_train_batch_size": 2}
    shown = run("plan", model=model, **step, activation_budget="50%", output=plan)
    assert "recompute" in shown.stdout
    run("train", **flags, activation_budget=budget * 9 // 10, plan=plan, output_dir=out)
    kept = [json.loads(file.read_text())["keep"] for file in (plan, out / "plan.json")]
    assert kept[0] == kept[1]


def test_a_budget_that_nothing_fits_is_an_error_with_code_4(flags, tmp_path):
    done = run("train", **flags, output_dir=tmp_path / "out", activation_budget="20KiB", code=4)
    assert "error[E4" in done.stderr
    assert "least that fits" in done.stderr


def hf_steps(model, batches, rate, steps, warmup):
    """Losses and gradient norms of the loop that transformers' Trainer runs."""
    from transformers import get_scheduler

    trained = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in trained if p.dim() > 1]
    others = [p for p in trained if p.dim() <= 1]
    groups = [
        {"params": decayed, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=rate)
    schedule = get_scheduler("cosine", optimizer, warmup, steps)
    model.train()
    for at in range(steps):
        micro = batches[at % len(batches)]
        items = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro)
        total = 0.0
        for tokens, labels in micro:
            loss = model(input_ids=tokens, labels=labels, num_items_in_batch=items).loss
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(trained, 1.0).item()
        rate_now = schedule.get_last_lr()[0]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        yield total, norm, rate_now


def padded(some):
    width = max(len(tokens) for tokens, _ in some)
    tokens = torch.zeros(len(some), width, dtype=torch.long)
    labels = torch.full((len(some), width), -100)
    for at, (row, marks) in enumerate(some):
        tokens[at, : len(row)] = torch.tensor(row)
        for place, (token, mark) in enumerate(zip(row, marks, strict=True)):
            if mark:
                labels[at, place] = token
    return tokens, labels


@pytest.mark.parametrize("method", ["lora", "full"])
def test_losses_are_those_of_transformers_and_peft(flags, model, adapter, tmp_path, method):
    flags |= {
        "method": method,
        "shuffle": "false",
        "gradient_accumulation_steps": 2,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 2,
        "weight_decay": 0.1,
        "max_steps": 20,
    }
    if method == "lora":
        flags["adapter"] = adapter
    run("train", **flags, output_dir=tmp_path / "out")

    from transformers import AutoModelForCausalLM

    made = rows()
    micro = [padded(made[at : at + 2]) for at in range(0, len(made), 2)]
    batches = [micro[at : at + 2] for at in range(0, len(micro), 2)]
    theirs = (
        peft_model(model)
        if method == "lora"
        else AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    )
    expected = list(hf_steps(theirs, batches, flags["learning_rate"], 20, 2))
    ours = metrics(tmp_path / "out")
    assert [s["loss"] for s in ours] == pytest.approx([e[0] for e in expected], abs=1e-4)
    assert [s["grad_norm"] for s in ours] == pytest.approx([e[1] for e in expected], rel=1e-2)
    assert [s["learning_rate"] for s in ours] == pytest.approx([e[2] for e in expected])
    assert ours[-1]["loss"] < ours[0]["loss"] - 0.1


# ---- Files for others ----------------------------------------------------------------------------


def mean_loss(model, made):
    total = items = 0
    model.eval()
    with torch.no_grad():
        for row in made:
            tokens, labels = padded([row])
            count = int((labels[:, 1:] != -100).sum())
            total += model(input_ids=tokens, labels=labels).loss.item() * count
            items += count
    return total / items


def test_peft_loads_the_adapter(flags, model, data, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    run("train", **flags, output_dir=tmp_path, use_rslora="true", lora_alpha=3)
    final = tmp_path / "final"
    ours = run("eval", "--json", model=model, data=data, adapter=final)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    before = mean_loss(base, rows())
    theirs = mean_loss(PeftModel.from_pretrained(base, final), rows())
    assert json.loads(ours.stdout)["eval_loss"] == pytest.approx(theirs, abs=1e-5)
    assert theirs < before - 0.05


def test_transformers_loads_the_model(flags, data, tmp_path):
    from transformers import AutoModelForCausalLM

    run("train", **flags, output_dir=tmp_path, method="full")
    final = tmp_path / "final"
    ours = run("eval", "--json", model=final, data=data)
    theirs = mean_loss(AutoModelForCausalLM.from_pretrained(final), rows())
    assert json.loads(ours.stdout)["eval_loss"] == pytest.approx(theirs, abs=1e-5)


def test_the_trained_model_is_inspected(flags, model, data, tmp_path):
    run("train", **flags, output_dir=tmp_path)

    def kind(path):
        return json.loads(run("inspect", path, "--json").stdout)

    assert kind(model)["model_type"] == "llama"
    assert kind(data)["rows"] == 12
    assert kind(tmp_path / "final")["config"]["r"] == 16
    assert kind(tmp_path / "latest")["complete"] is True


# ---- Interruptions -------------------------------------------------------------------------------


@pytest.fixture
def long_run(flags):
    """Long enough to be interrupted in the middle; a checkpoint every other step."""
    return flags | {
        "max_steps": 50,
        "save_steps": 4,
        "lora_dropout": 0.1,
        "activation_checkpointing": "full",
    }


def start(out, *more, **flags):
    return subprocess.Popen(
        command("train", *more, **flags, output_dir=out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_step(process, out, step):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if (out / "metrics.jsonl").exists() and f'"step":{step},' in (
            out / "metrics.jsonl"
        ).read_text():
            return
        time.sleep(0.005)
    pytest.fail(f"step {step} was not reached: {process.poll()}")


def result(out):
    final = (out / "final" / "adapter_model.safetensors").read_bytes()
    checkpoint = (out / "latest" / "optimizer.safetensors").read_bytes()
    return losses(out), final, checkpoint


def test_goes_on_after_ctrl_c_as_if_never_stopped(long_run, tmp_path):
    run("train", **long_run, output_dir=tmp_path / "whole")
    out = tmp_path / "parts"
    process = start(out, **long_run, logging_steps=1)
    wait_for_step(process, out, 9)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "interrupted" in error
    assert "--resume-from-checkpoint" in error
    assert len(losses(out)) < 50
    run("train", "--resume-from-checkpoint", **long_run, output_dir=out)
    assert result(out) == result(tmp_path / "whole")


def test_a_request_to_end_is_answered_with_143(long_run, tmp_path):
    process = start(tmp_path, **long_run, logging_steps=1)
    wait_for_step(process, tmp_path, 3)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 143, error
    assert (tmp_path / "latest" / "MANIFEST.json").exists()


def test_an_interruption_that_cannot_be_saved_ends_with_code_131(long_run, tmp_path):
    process = start(tmp_path, **long_run | {"save_steps": 0}, logging_steps=1)
    wait_for_step(process, tmp_path, 3)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 131, error
    assert "error[E131 save]" in error
    assert "File too large" in error


def test_too_little_memory_is_an_error_with_code_5(flags, tmp_path):
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    failed = subprocess.run(
        command("train", **flags | {"lora_r": 1 << 28}, output_dir=tmp_path),
        capture_output=True,
        text=True,
        preexec_fn=little_memory,
        check=False,
    )
    assert failed.returncode == 5, failed.stderr
    assert "error[E5 memory]" in failed.stderr


def test_goes_on_after_being_killed_at_any_moment(long_run, tmp_path):
    # A checkpoint every step: most of the time of such small steps is a save.
    long_run |= {"save_steps": 1, "max_steps": 40}
    run("train", **long_run, output_dir=tmp_path / "whole")
    out = tmp_path / "parts"
    draw = random.Random(7)
    for _ in range(5):
        process = start(out, "--resume-from-checkpoint", **long_run)
        at = len(losses(out)) if (out / "metrics.jsonl").exists() else 0
        wait_for_step(process, out, min(at + 3, 39))
        time.sleep(draw.uniform(0, 0.03))
        process.kill()
        process.communicate()
    run("train", "--resume-from-checkpoint", **long_run, output_dir=out)
    assert result(out) == result(tmp_path / "whole")
    assert not list(out.glob(".tmp-*"))


def test_a_full_disk_loses_nothing(flags, tmp_path):
    # A constant rate: the first part ends earlier than the whole, and must not decay earlier.
    flags |= {"save_steps": 2, "output_dir": tmp_path / "out", "lr_scheduler_type": "constant"}
    run("train", **flags | {"output_dir": tmp_path / "whole"})
    run("train", **flags | {"max_steps": 2})

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    failed = subprocess.run(
        command("train", "--resume-from-checkpoint", **flags),
        capture_output=True,
        text=True,
        preexec_fn=small_files,
        check=False,
    )
    assert failed.returncode == 1, failed.stderr
    assert "error[E1 runtime]" in failed.stderr
    assert "adapter_model.safetensors: cannot be written: File too large" in failed.stderr
    assert not list((tmp_path / "out").glob(".tmp-*"))
    run("train", "--resume-from-checkpoint", **flags)
    assert losses(tmp_path / "out") == losses(tmp_path / "whole")


# ---- Configuration -------------------------------------------------------------------------------


def test_a_file_gives_the_flags_and_flags_override_it(flags, model, data, tmp_path):
    (tmp_path / "run.yaml").write_text(
        f"model: {model}\ndata: {data}\nmax_steps: 3\nlearning-rate: 1e-3\n"
        "lora: {r: 2, alpha: 5, target_modules: [q_proj, v_proj]}\n"
        "optim: {weight_decay: 0.5}\n"
    )
    out = tmp_path / "out"
    run("train", "-c", tmp_path / "run.yaml", "--max_steps=2", output_dir=out)
    config = json.loads((out / "final" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (2, 5)
    assert config["target_modules"] == ["q_proj", "v_proj"]
    assert len(losses(out)) == 2

    resolved = out / "config.resolved.yaml"
    assert "weight_decay: 0.5" in resolved.read_text()
    again = tmp_path / "again"
    run("train", config=resolved, output_dir=again)
    assert losses(again) == losses(out)


def test_a_file_may_be_json(model, data, tmp_path):
    config = {"model": str(model), "data": str(data), "max_steps": 1, "lora_r": 3}
    (tmp_path / "run.json").write_text(json.dumps(config))
    run("train", config=tmp_path / "run.json", output_dir=tmp_path / "out")
    adapter = json.loads((tmp_path / "out" / "final" / "adapter_config.json").read_text())
    assert adapter["r"] == 3


def test_help_says_the_exit_codes():
    for name in ("train", "eval", "generate", "inspect"):
        assert "130, 143 interrupted" in run(name, "--help").stdout


# ---- What is wrong -------------------------------------------------------------------------------


def test_without_a_terminal_lines_are_plain(flags, tmp_path):
    done = run("train", **flags, output_dir=tmp_path)
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    lines = [line for line in done.stdout.splitlines() if f"/{STEPS}" in line]
    assert len(lines) == STEPS
    assert "MiB" in lines[0]


def short_row(path, _):
    write_tokens(path, [([5, 6, 7], [1, 0, 0]), ([5, 6], [1, 1])])


def wrong_token(path, _):
    write_tokens(path, [([1, 2], [1, 1]), ([3, VOCABULARY], [1, 1])])


def no_rows(path, _):
    write_tokens(path, [])


def text(path, _):
    path.write_text("Once upon a time\n")


def truncated(path, data):
    path.write_bytes(data.read_bytes()[:-7])


BAD_DATA = {
    "short_row": (short_row, "1 rows have no trainable token"),
    "wrong_token": (wrong_token, f"row 1, token 1 is {VOCABULARY}"),
    "no_rows": (no_rows, "no rows"),
    "text": (text, "python -m remat.prepare data"),
    "truncated": (truncated, "bad.safetensors"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_an_error_with_code_3(flags, data, tmp_path, case):
    make, expected = BAD_DATA[case]
    bad = tmp_path / ("bad.txt" if case == "text" else "bad.safetensors")
    make(bad, data)
    done = run("train", **flags | {"data": bad}, output_dir=tmp_path / "out", code=3)
    assert "error[E3 data]" in done.stderr
    assert expected in done.stderr
    assert str(bad) in done.stderr


BAD_USAGE = {
    "two budgets": (["--activation-budget", "1G", "--memory-budget", "2G"], "either"),
    "no size": (["--activation-budget", "much"], "--activation-budget"),
    "budget and layers": (
        ["--activation-budget", "1G", "--activation-checkpointing", "full"],
        "leave --activation-checkpointing out",
    ),
    "unknown flag": (["--lora-rr", "8"], "did you mean --lora-r?"),
    "no number": (["--lora-r", "many"], "--lora-r"),
    "no such method": (["--method", "qlora"], "--method"),
    "no such setting": (["--activation-checkpointing", "all"], "none, full, sqrt, or every:N"),
    "no such policy": (
        ["--activation-checkpointing", "sqrt + dots_savable"],
        'at column 1: there is no policy named "dots_savable"',
    ),
    "names": (["--activation-checkpointing", "names(attn_out)"], "values have no names"),
    "no such schedule": (["--lr-scheduler-type", "cosin"], "cosine"),
    "no such layer": (["--lora-target-modules", "c_attn"], "q_proj"),
    "no such file": (["--config", "/nonexistent.yaml"], "/nonexistent.yaml"),
    "rank of zero": (["--lora-r", "0"], "--lora-r"),
    "dropout of one": (["--lora-dropout", "1"], "--lora-dropout"),
}


@pytest.mark.parametrize("case", BAD_USAGE)
def test_bad_usage_is_an_error_with_code_2(flags, tmp_path, case):
    words, expected = BAD_USAGE[case]
    done = run("train", *words, **flags | {"output_dir": tmp_path / "out"}, code=2)
    assert "error[E2 usage]" in done.stderr
    assert expected in done.stderr


def test_an_unknown_key_is_named_with_its_place_and_the_nearest(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: m\nlora:\n  ranks: 8\n  alhpa: 3\n")
    done = run("train", config=path, code=2)
    assert f"{path}:3:3: unknown key 'ranks'" in done.stderr
    path.write_text("learning_rat: 1\n")
    assert "did you mean 'learning-rate'?" in run("train", config=path, code=2).stderr


def test_a_missing_command_or_a_wrong_one_is_an_error():
    assert "did you mean train?" in run("trian", code=2).stderr
    run(code=2)


def no_weights(folder):
    (folder / "model.safetensors").unlink()


def no_config(folder):
    (folder / "config.json").unlink()


def cut_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [no_weights, no_config, cut_weights])
def test_a_damaged_model_is_an_error_with_code_6(flags, model, tmp_path, damage):
    import shutil

    bad = tmp_path / "model"
    shutil.copytree(model, bad)
    damage(bad)
    done = run("train", **flags | {"model": bad}, output_dir=tmp_path / "out", code=6)
    assert "error[E6 model]" in done.stderr
    assert str(bad) in done.stderr


def test_a_checkpoint_that_is_not_complete_is_an_error_with_code_6(flags, tmp_path):
    out = tmp_path / "out"
    run("train", **flags, output_dir=out)
    checkpoint = out / f"checkpoint-{STEPS:06}"
    (checkpoint / "state.json").write_text("{}")
    flags["resume_from_checkpoint"] = checkpoint
    done = run("train", **flags, output_dir=out, code=6)
    assert "is no complete checkpoint: state.json has 2 bytes" in done.stderr


def test_a_loss_that_is_no_number_ends_with_code_7(flags, tmp_path):
    flags |= {"learning_rate": 1e30, "max_grad_norm": 0}
    assert "error[E7" in run("train", **flags, output_dir=tmp_path, code=7).stderr
