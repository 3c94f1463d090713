"""Checks that what is trained is what the library renders and tokenizes: run with python test_corpus.py."""

import itertools
import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from checkpoint import TEMPLATES
from corpus import Renderer, samples
from families import FAMILIES
from tokenizer import MEDIA, write_tokenizer
from train_small import make_vocabulary

NASTY = [
    "",
    " ",
    "a\n\n\nb",
    "\n" * 33,
    " " * 40,
    "\u2603 h\u00e9llo \U0010ffff",
    "\u2581 \u2581",
    "<unused0>",
    "<0x41>",
    "tab\tand\r\nreturn",
    "x<|turn>y",
    "<turn|>\n\n",
    "12+7=19",
    "\u65e5\u672c\u8a9e \u0627\u0644\u0633\u0644\u0627\u0645",
]


def check_templates_differ_in_the_generation_prompt_only():
    small, large = ((TEMPLATES / f"{name}.jinja").read_text().splitlines() for name in ("effective", "large"))
    start = small.index("{%- if add_generation_prompt -%}")
    assert small[1:start] == large[1:start]


def check_pieces(family, tokens):
    renderer = Renderer(TEMPLATES / f"{family.template}.jinja")
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(folder, tokens, family.positions, **family.tokenizer)
        rebuilt = AutoTokenizer.from_pretrained(folder)
        plain = Tokenizer.from_file(f"{folder}/tokenizer.json")
    rebuilt.chat_template = (TEMPLATES / f"{family.template}.jinja").read_text()
    for text in NASTY:
        assert rebuilt.encode(text, add_special_tokens=False) == plain.encode(text, add_special_tokens=False).ids, text
    for sample in itertools.islice(samples(11), 3000):
        pieces = renderer.pieces(sample)
        whole = "".join(text for text, _ in pieces)
        ids = [token for text, _ in pieces for token in plain.encode(text, add_special_tokens=False).ids]
        assert (
            ids == plain.encode(whole, add_special_tokens=False).ids == rebuilt.encode(whole, add_special_tokens=False)
        )
        if sample.plain is not None:
            continue
        # The last prompt is a prefix of the text, and the learned rest is the reply that the library would show.
        prompt = rebuilt.apply_chat_template(
            sample.messages[:-1] if sample.messages[-1]["role"] == "assistant" else sample.messages,
            tools=sample.tools,
            enable_thinking=sample.thinking,
            add_generation_prompt=True,
            tokenize=False,
        )
        assert whole.startswith(prompt) and pieces[-1] == (whole[len(prompt) :], True), (prompt, pieces)
        shown = rebuilt.apply_chat_template(
            sample.messages, tools=sample.tools, enable_thinking=sample.thinking, tokenize=False
        )
        quiet = "<|channel>thought\n<channel|>"
        assert shown.removesuffix("\n") == whole.replace(quiet, "") or sample.thinking, (shown, whole)


def main():
    tokens = make_vocabulary()
    assert (
        tokens[-len(MEDIA) :] == MEDIA and tokens[105] == "<|turn>" and tokens[107] == "\n" and tokens[238] == "<0x00>"
    )
    check_templates_differ_in_the_generation_prompt_only()
    for name in ("demo", "e4b", "12b"):
        check_pieces(FAMILIES[name], tokens)
        print(f"{name}: rendered and tokenized as the library does")


if __name__ == "__main__":
    main()
