"""The C++ tokenizer against Hugging Face's: every kind of tokenizer.json that it supports."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("REMAT_BUILD", ROOT / "build" / "release"))
TOOL = BUILD / "tests" / "models" / "model_tool"
SMOLLM2 = ROOT / "out" / "demo" / "model"

# As Llama 3 and Qwen 2 publish them.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

TEXT = """
the a of to Hello world don't I'LL they've 1234567 3.14 x+=1; €5 naïve Ångström \ufb01n ½ ² 日本語
中文 한국어 हिन्दी ไทย العربية עברית Ελλάδα русский é A\u030a 👍🏽 👩\u200d👩\u200d👧 \uff41
<|end|> <|im_start|> </s> (a[b]{c}) http://x.y/?z=1&w http __init__ CamelCase don\u2019t
"""
WORDS = TEXT.split()
SPACES = [*"   ", "", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "\u3000", "   "]


def strings(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    plain = [
        "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(rng.randrange(12)))
        for _ in range(count // 2)
    ]
    # Any characters but surrogates, which are no text.
    ranges = [range(0x80), range(0xD800), range(0x1F300, 0x1F700)]
    anything = [
        "".join(chr(rng.choice(rng.choice(ranges))) for _ in range(rng.randrange(20)))
        for _ in range(count // 2)
    ]
    return ["", " ", "▁", "a▁b", *plain, *anything]


def train(tokenizer: Tokenizer, **options) -> Tokenizer:
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False, **options)
    tokenizer.train_from_iterator(strings(400, seed=1), trainer)
    tokenizer.add_special_tokens(["<|end|>", "<|im_start|>"])
    return tokenizer


def byte_level(pattern=None, **bpe) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**bpe))
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
    if pattern:
        steps.insert(0, pre_tokenizers.Split(Regex(pattern), "isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def gpt2() -> Tokenizer:
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def smollm2_digits() -> Tokenizer:
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    return tokenizer


def llama3() -> Tokenizer:
    tokenizer = byte_level(LLAMA3, ignore_merges=True)
    end = tokenizer.token_to_id("<|end|>")
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("<|end|> $A", None, [("<|end|>", end)]),
        ]
    )
    return tokenizer


def qwen2() -> Tokenizer:
    tokenizer = byte_level(QWEN2)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("http", normalized=True)])
    return tokenizer


def sentencepiece(normalizer, pre_tokenizer, decoder) -> Tokenizer:
    """Characters, with bytes for those not in the vocabulary."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    train(tokenizer, special_tokens=special, limit_alphabet=120)
    written = json.loads(tokenizer.to_str())
    written["model"]["byte_fallback"] = True
    # The tokenizers of Llama 2 know bytes as tokens of the vocabulary alone.
    written["added_tokens"] = [
        token for token in written["added_tokens"] if not token["content"].startswith("<0x")
    ]
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoder
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", None, [("<s>", 1), ("</s>", 2)]
    )
    return tokenizer


def llama2() -> Tokenizer:
    return sentencepiece(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        None,
        decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        ),
    )


def mistral(scheme="first", split=False) -> Tokenizer:
    metaspace = {"replacement": "▁", "prepend_scheme": scheme, "split": split}
    return sentencepiece(
        None, pre_tokenizers.Metaspace(**metaspace), decoders.Metaspace(**metaspace)
    )


def stripping() -> Tokenizer:
    tokenizer = byte_level()
    tokenizer.add_special_tokens(
        [AddedToken("</s>", lstrip=True), AddedToken("<|im_start|>", rstrip=True)]
    )
    return tokenizer


KINDS = {
    "gpt2": gpt2,
    "smollm2-digits": smollm2_digits,
    "llama3": llama3,
    "qwen2": qwen2,
    "llama2": llama2,
    "mistral": mistral,
    "metaspace-always": lambda: mistral("always", split=True),
    "metaspace-never": lambda: mistral("never", split=True),
    "stripping": stripping,
}


def compare(theirs: Tokenizer, folder: Path, texts: list[str], scratch: Path) -> None:
    (scratch / "in.json").write_text(json.dumps(texts))
    words = ["tokenize", folder, scratch / "in.json", scratch / "out.json"]
    done = subprocess.run([TOOL, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = json.loads((scratch / "out.json").read_text())
    assert len(ours) == len(texts)
    for text, result in zip(texts, ours, strict=True):
        ids = theirs.encode(text).ids
        assert result["ids"] == ids, repr(text)
        assert result["text"] == theirs.decode(ids, skip_special_tokens=False), repr(text)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_and_texts_are_those_of_hugging_face(kind, tmp_path):
    tokenizer = KINDS[kind]()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    compare(tokenizer, tmp_path, strings(1000, seed=2), tmp_path)


@pytest.mark.skipif(not SMOLLM2.exists(), reason="make demo prepares SmolLM2 in out/demo/model")
def test_tokens_of_smollm2_are_those_of_hugging_face(tmp_path):
    theirs = Tokenizer.from_file(str(SMOLLM2 / "tokenizer.json"))
    compare(theirs, SMOLLM2, strings(4000, seed=3), tmp_path)


@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        ("normalizer", {"type": "Lowercase"}, 'normalizer "Lowercase" is not supported'),
        ("pre_tokenizer", {"type": "Whitespace"}, 'pre-tokenizer "Whitespace" is not supported'),
        ("model", {"type": "Unigram", "vocab": []}, 'model "Unigram" is not supported'),
        ("decoder", {"type": "WordPiece"}, 'decoder "WordPiece" is not supported'),
        ("post_processor", {"type": "BertProcessing"}, "is not supported"),
    ],
)
def test_an_unsupported_part_is_named(part, value, says, tmp_path):
    written = json.loads(byte_level().to_str())
    written[part] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(written))
    (tmp_path / "in.json").write_text("[]")
    words = ["tokenize", tmp_path, tmp_path / "in.json", tmp_path / "out.json"]
    done = subprocess.run([TOOL, *words], capture_output=True, text=True)
    assert done.returncode == 1
    assert "tokenizer.json: " in done.stderr
    assert says in done.stderr
