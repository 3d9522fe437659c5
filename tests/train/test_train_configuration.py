"""Flags and files of `remat train`, and what is wrong with them."""

import json

import pytest
from train_runs import (
    STEPS,
    VOCABULARY,
    losses,
    run,
    write_tokens,
)


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
