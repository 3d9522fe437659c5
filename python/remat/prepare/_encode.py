"""A row as tokens and marks: which of them are trained on."""

import re
from dataclasses import dataclass, field

from remat.prepare._errors import DataError
from remat.prepare._source import Row


@dataclass
class Encoded:
    place: str
    tokens: list[int]
    mask: list[int] = field(repr=False)  # 1: trained on

    def cut(self, length: int) -> "Encoded":
        return Encoded(self.place, self.tokens[:length], self.mask[:length])

    @property
    def trains(self) -> bool:
        # Nothing comes before the first token to predict it from.
        return any(self.mask[1:])


class Encoder:
    """Encodes rows with a tokenizer of transformers."""

    def __init__(self, tokenizer, completion_only: bool, last_turn_only: bool):
        self._tokenizer = tokenizer
        self._completion_only = completion_only
        self._last_turn_only = last_turn_only

    def row(self, row: Row) -> Encoded:
        if row.format == "text":
            return self.text(_string(row, "text"), row.place)
        if row.format == "messages":
            return self._conversation(row, _messages(row, "messages"), trained_from=0)
        if isinstance(row.fields["prompt"], list):
            prompt, completion = _messages(row, "prompt"), _messages(row, "completion")
            return self._conversation(row, prompt + completion, trained_from=len(prompt))
        prompt, completion = _string(row, "prompt"), _string(row, "completion")
        return self._spans(row.place, prompt + completion, [(len(prompt), None)], plain=True)

    def text(self, text: str, place: str) -> Encoded:
        return self._spans(place, text, [(0, None)], plain=True)

    def _spans(self, place: str, text: str, spans: list, plain: bool) -> Encoded:
        """Encodes the text; tokens that reach into a span of characters are trained on.

        A plain text gets the tokenizer's special tokens, and the end of the text at the end; a
        rendered conversation has them already.
        """
        encoding = self._tokenizer(
            text, add_special_tokens=plain, return_offsets_mapping=True, verbose=False
        )
        tokens, offsets = encoding["input_ids"], encoding["offset_mapping"]
        mask = [int(self._is_trained(begin, end, spans)) for begin, end in offsets]
        end = self._tokenizer.eos_token_id
        if plain and tokens[-1:] != [end]:
            tokens, mask = [*tokens, end], [*mask, 1]
        elif plain:
            mask[-1] = 1
        return Encoded(place, tokens, mask)

    def _is_trained(self, begin: int, end: int, spans: list) -> bool:
        if not self._completion_only:
            return True
        return any(end > first and (last is None or begin < last) for first, last in spans)

    # ---- Conversations ---------------------------------------------------------------------------

    def _conversation(self, row: Row, messages: list[dict], trained_from: int) -> Encoded:
        turns = [
            index
            for index, message in enumerate(messages)
            if message["role"] == "assistant" and index >= trained_from
        ]
        if not turns:
            raise DataError(f"{row.place}: has no turn with role assistant to train on")
        whole = self._render(row, messages)
        if self._last_turn_only:
            turns = turns[-1:]
        spans = [self._span_of(row, messages, turn, whole) for turn in turns]
        return self._spans(row.place, whole, spans, plain=False)

    def _span_of(self, row: Row, messages: list[dict], turn: int, whole: str) -> tuple[int, int]:
        """Where in the rendered conversation a turn's content and its end mark are.

        Found by rendering the conversation up to the turn and through it: works with every template
        that only adds text, and needs no marks inside the template.
        """
        before = self._render(row, messages[:turn], add_generation_prompt=True)
        through = self._render(row, messages[: turn + 1])
        if not (whole.startswith(through.rstrip()) and through.startswith(before)):
            raise DataError(
                f"{row.place}: the chat template renders turn {turn + 1} differently when others "
                "follow, so its tokens cannot be told apart; use --assistant-turns last, and a row "
                "for each turn to train on"
            )
        # The line break behind the end mark belongs to the template, not to the answer.
        return len(before), len(through.rstrip())

    def _render(self, row: Row, messages: list[dict], **options) -> str:
        if not self._tokenizer.chat_template:
            raise DataError(
                f"{row.place}: the model's tokenizer has no chat template; use rows of prompt and "
                "completion, or the instruction-tuned model"
            )
        try:
            return self._tokenizer.apply_chat_template(messages, tokenize=False, **options)
        except Exception as error:  # templates raise what they like
            cause = re.sub(r"\s+", " ", str(error))
            raise DataError(f"{row.place}: the chat template refuses it: {cause}") from error


def _string(row: Row, key: str) -> str:
    value = row.fields[key]
    if not isinstance(value, str):
        raise DataError(f"{row.place}: {key} must be a string, is {type(value).__name__}")
    return value


def _messages(row: Row, key: str) -> list[dict]:
    value = row.fields[key]
    if not isinstance(value, list) or not value:
        raise DataError(f"{row.place}: {key} must be a list of messages that is not empty")
    for number, message in enumerate(value, start=1):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise DataError(f"{row.place}: message {number} of {key} must have role and content")
        if not isinstance(message["content"], str):
            raise DataError(f"{row.place}: content of message {number} must be a string")
    return value
