"""python -m remat.prepare: rows to tokens and marks, errors with their place, model folders."""

import itertools
import json

import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, BertConfig, LlamaConfig, PreTrainedTokenizerFast

from remat.prepare.__main__ import main

CHATML = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
# As some models do: what the assistant thought is kept in the last turn alone.
FORGETFUL = CHATML.replace(
    "{{ m.content }}", "{{ m.content if loop.last else m.content.split('|')[-1] }}"
)


def write_tokenizer(folder, chat_template=CHATML):
    """A token for every byte, so that tokens and texts are easy to compare."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|start|>", "<|end|>"])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", chat_template=chat_template
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def model(tmp_path):
    folder = write_tokenizer(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 258}))
    return folder


@pytest.fixture
def prepare(model, tmp_path, capsys):
    """Prepares a file of that content; gives exit code, rows as (text, trained text), errors."""

    def run(content, *options, name="rows.jsonl"):
        if isinstance(content, list):
            content = "\n".join(json.dumps(row) for row in content)
        source = tmp_path / name
        source.write_bytes(content if isinstance(content, bytes) else content.encode())
        output = tmp_path / "out.safetensors"
        words = ["data", source, "--model", model, "--output", output, *options]
        code = main([str(word) for word in words])
        return code, rows_of(output, model) if code == 0 else [], capsys.readouterr().err

    return run


def rows_of(path, model):
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
    with safe_open(path, "np") as file:
        tokens, mask, offsets = (file.get_tensor(name) for name in ("tokens", "mask", "offsets"))
    rows = []
    for begin, end in itertools.pairwise(offsets):
        row, marks = tokens[begin:end], mask[begin:end].astype(bool)
        rows.append((tokenizer.decode(row), tokenizer.decode(row[marks])))
    return rows


def test_a_text_is_trained_on_whole_and_ends(prepare):
    assert prepare([{"text": "ab"}])[1] == [("ab<|end|>", "ab<|end|>")]


def test_a_text_that_ends_already_gets_no_second_end(prepare):
    assert prepare([{"text": "ab<|end|>"}])[1] == [("ab<|end|>", "ab<|end|>")]


def test_a_prompt_is_not_trained_on(prepare):
    rows = prepare([{"prompt": "2+2=", "completion": "4"}])[1]
    assert rows == [("2+2=4<|end|>", "4<|end|>")]


def test_a_prompt_is_trained_on_if_asked_for(prepare):
    rows = prepare([{"prompt": "2+2=", "completion": "4"}], "--no-completion-only-loss")[1]
    assert rows == [("2+2=4<|end|>", "2+2=4<|end|>")]


def turns(*contents):
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]


def test_assistant_turns_are_trained_on_with_their_end_mark(prepare):
    whole, trained = prepare([{"messages": turns("hi", "yo", "so?", "bye")}])[1][0]
    assert whole.startswith("<|start|>user\nhi<|end|>\n<|start|>assistant\nyo<|end|>\n")
    assert trained == "yo<|end|>bye<|end|>"


def test_the_last_turn_alone_is_trained_on_if_asked_for(prepare):
    rows = prepare([{"messages": turns("hi", "yo", "so?", "bye")}], "--assistant-turns", "last")[1]
    assert rows[0][1] == "bye<|end|>"


def test_prompts_may_be_messages(prepare):
    row = {"prompt": turns("hi", "yo", "so?"), "completion": turns("", "bye")[1:]}
    assert prepare([row])[1][0][1] == "bye<|end|>"


def test_a_template_that_changes_earlier_turns_is_refused(prepare, model):
    write_tokenizer(model, FORGETFUL)
    messages = turns("hi", "hmm|yo", "so?", "ok|bye")
    code, _, error = prepare([{"messages": messages}])
    assert code == 3
    assert "rows.jsonl:1: the chat template renders turn 2 differently" in error
    rows = prepare([{"messages": messages}], "--assistant-turns", "last")[1]
    assert rows[0][1] == "ok|bye<|end|>"


def test_a_text_file_becomes_rows_of_the_length(prepare):
    rows = prepare("abcdefgh", "--max-length", "4", name="some.txt")[1]
    assert [text for text, _ in rows] == ["abcd", "efgh"]


def test_a_long_row_is_cut(prepare):
    assert prepare([{"text": "abcdef"}], "--max-length", "3")[1] == [("abc", "abc")]


def test_evaluation_rows_are_put_aside(prepare, model, tmp_path):
    words = ["data", tmp_path / "rows.jsonl", "--model", model, "--output", tmp_path / "split"]
    (tmp_path / "rows.jsonl").write_text("\n".join(f'{{"text": "{i}"}}' for i in range(10)))
    assert main([*map(str, words), "--val-size", "0.2"]) == 0
    train = rows_of(tmp_path / "split" / "train.safetensors", model)
    valid = rows_of(tmp_path / "split" / "valid.safetensors", model)
    assert len(train) == 8
    assert sorted(train + valid) == [(f"{i}<|end|>", f"{i}<|end|>") for i in range(10)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"text": "a"}\n{"text": "b" "c"}', "rows.jsonl:2:14: Expecting ',' delimiter"),
        ("[1]", "rows.jsonl:1: must be a JSON object, is list"),
        ('{"question": "a"}', "rows.jsonl:1: its keys (question) match no format"),
        ('{"text": 5}', "rows.jsonl:1: text must be a string, is int"),
        ('{"text": "a"}\n\n{"messages": []}', "rows.jsonl:3: is a row of messages"),
        ('{"messages": []}', "rows.jsonl:1: messages must be a list of messages that is not empty"),
        ('{"messages": [{"role": "user"}]}', "rows.jsonl:1: message 1 of messages must have role"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "no turn with role assistant"),
        (b'{"text": "a"}\n{"text": "\xff"}', "rows.jsonl:2: is not UTF-8"),
        ("", "rows.jsonl: has no rows"),
        ("\n\n", "rows.jsonl: has no rows"),
    ],
)
def test_a_bad_row_is_named_with_its_line(prepare, content, says):
    code, _, error = prepare(content)
    assert code == 3
    assert says in error


def test_rows_without_a_trainable_token_stop_or_are_left_out(prepare):
    rows = [{"prompt": "p", "completion": "ok"}, {"prompt": "long" * 9, "completion": "c"}]
    code, _, error = prepare(rows, "--max-length", "8")
    assert code == 3
    assert "rows.jsonl:2: no token to train on within 8 tokens, and so in 1 of 2 rows" in error
    assert len(prepare(rows, "--max-length", "8", "--drop-untrainable")[1]) == 1


def test_a_tokenizer_of_another_model_is_refused(prepare, model):
    (model / "config.json").write_text(json.dumps({"vocab_size": 50}))
    code, _, error = prepare([{"text": "zebra"}])
    assert code == 6
    assert "vocab_size 50" in error


def test_what_was_prepared_says_from_what(prepare, model, tmp_path):
    prepare([{"text": "ab"}])
    with safe_open(tmp_path / "out.safetensors", "np") as file:
        metadata = file.metadata()
    assert metadata["kind"] == "remat.tokens"
    assert metadata["vocab_size"] == "258"
    assert len(metadata["tokenizer_sha256"]) == len(metadata["source_sha256"]) == 64


# ---- Models --------------------------------------------------------------------------------------

TINY = LlamaConfig(
    vocab_size=258,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=2,
)


def test_a_model_becomes_a_folder_of_the_dtype(tmp_path):
    model = AutoModelForCausalLM.from_config(TINY)
    model.save_pretrained(tmp_path / "source")
    write_tokenizer(tmp_path / "source")
    assert main(["model", str(tmp_path / "source"), str(tmp_path / "out")]) == 0
    prepared = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert prepared.dtype == torch.bfloat16
    assert torch.equal(prepared.lm_head.weight, model.lm_head.weight.bfloat16())
    assert (tmp_path / "out" / "tokenizer.json").exists()


def test_another_architecture_is_refused_and_nothing_is_left(tmp_path, capsys):
    BertConfig().save_pretrained(tmp_path / "source")
    assert main(["model", str(tmp_path / "source"), str(tmp_path / "out")]) == 6
    assert "model_type 'bert' is not supported; supported are llama" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_a_folder_that_exists_is_not_overwritten(tmp_path, capsys):
    assert main(["model", str(tmp_path / "source"), str(tmp_path)]) == 6
    assert "exists already" in capsys.readouterr().err
