"""Compares the tokenizer with Hugging Face tokenizers on random tokenizer.json files: every flag and step it supports.

The files are small and strange on purpose: few characters, many merges, added tokens that overlap, missing bytes."""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

from tokenizer_crosscheck import Report, run_lines

ALPHABET = "aab_ \u2581\né.1"
UNSUPPORTED = 4  # exit status
SPACES = [" ", "\u3000", "\n", "\t"]


class Variant:
    """One random tokenizer.json."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.vocabulary = self.make_vocabulary()
        self.merges = self.make_merges()

    def chance(self, probability):
        return self.random.random() < probability

    def word(self, longest=4):
        return "".join(self.random.choice(ALPHABET) for _ in range(self.random.randint(1, longest)))

    def make_vocabulary(self):
        names = ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256) if self.random.random() < 0.97 or self.seeded_bytes()]
        names += [character for character in dict.fromkeys(ALPHABET) if self.chance(0.9)]
        step = self.random.choice([1, 1, 3])
        self.random.shuffle(names)
        return {name: index * step for index, name in enumerate(names)}

    def seeded_bytes(self):
        return self.random.random() < 0.5

    def make_merges(self):
        merges = []
        pieces = [name for name in self.vocabulary if len(name.encode()) < 4 or self.chance(0.02)]
        next_id = max(self.vocabulary.values()) + 1
        for _ in range(self.random.randint(0, 60)):
            left, right = self.random.choice(pieces), self.random.choice(pieces)
            joined = left + right
            if len(joined) > 12:
                continue
            if joined not in self.vocabulary:
                self.vocabulary[joined] = next_id
                next_id += 1
                pieces.append(joined)
            merges.append([left, right])
        self.random.shuffle(merges)
        if self.chance(0.3):
            return [" ".join(pair) for pair in merges if not any(" " in side for side in pair)
                    and not pair[0].startswith("#version")]
        return merges

    def added_tokens(self):
        contents = {self.word() for _ in range(self.random.randint(0, 6))} | {"<unk>"}
        contents |= {self.random.choice(list(self.vocabulary)) for _ in range(2)}
        fresh = len(self.vocabulary)
        tokens = []
        for content in sorted(contents):
            token_id = self.vocabulary.get(content)
            if token_id is None:
                if fresh in self.vocabulary.values():
                    continue  # the reference would give two tokens one id
                token_id, fresh = fresh, fresh + 1
            tokens.append({"id": token_id, "content": content, "single_word": self.chance(0.3), "lstrip": self.chance(0.3),
                           "rstrip": self.chance(0.3), "normalized": self.chance(0.4), "special": self.chance(0.5)})
        return tokens

    def sequence(self, list_name, makers):
        steps = [self.random.choice(makers)() for _ in range(self.random.randint(0, 3))]
        if not steps:
            return self.random.choice([None, {"type": "Sequence", list_name: []}])
        return steps[0] if len(steps) == 1 and self.chance(0.5) else {"type": "Sequence", list_name: steps}

    def replace(self):
        return {"type": "Replace", "pattern": {"String": self.random.choice([" ", "a", "ab", "\u2581", "aa"])},
                "content": self.random.choice(["\u2581", " ", "", "b", "ab"])}

    def prepend(self):
        return {"type": "Prepend", "prepend": self.random.choice(["\u2581", "a", ""])}

    def split(self):
        return {"type": "Split", "pattern": {"String": self.random.choice([" ", "a", "\u2581", "ab"])},
                "behavior": self.random.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]),
                "invert": self.chance(0.3)}

    def metaspace(self, schemes=("always", "never")):
        return {"type": "Metaspace", "replacement": self.random.choice("\u2581_"), "split": self.chance(0.7),
                "prepend_scheme": self.random.choice(schemes)}

    def decoder(self):
        unfused = [self.replace, lambda: {"type": "ByteFallback"}, self.strip, self.metaspace]
        steps = [self.random.choice(unfused)() for _ in range(self.random.randint(0, 3))]
        if self.chance(0.6):
            steps += [{"type": "Fuse"}]
            steps += [self.random.choice([self.replace, self.strip, self.metaspace])() for _ in range(self.random.randint(0, 2))]
        return {"type": "Sequence", "decoders": steps} if self.chance(0.9) else None

    def strip(self):
        # With a stop the reference panics on tokens that are stripped away whole, so only the start is random.
        return {"type": "Strip", "content": self.random.choice(" ab"), "start": self.random.randint(0, 3), "stop": 0}

    def file(self):
        normalizer = self.sequence("normalizers", [self.replace, self.replace, self.prepend])
        pre_tokenizer = self.sequence("pretokenizers", [self.split, self.metaspace])
        if normalizer is None and self.chance(0.3):
            pre_tokenizer = self.metaspace(["first"])
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": self.added_tokens(),
                "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": self.decoder(),
                "model": {"type": "BPE", "dropout": None, "unk_token": self.random.choice(["<unk>", "<unk>", None]),
                          "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": self.chance(0.5),
                          "byte_fallback": self.chance(0.6), "ignore_merges": self.chance(0.3), "vocab": self.vocabulary,
                          "merges": self.merges}}

    def texts(self, added, count):
        parts = [token["content"] for token in added] + SPACES + list(ALPHABET) + ["€", "😀", "zz", "  "]
        return ["".join(self.random.choice(parts) for _ in range(self.random.randint(0, 14))) for _ in range(count)]


def unless_panic(function, *values, **options):
    """The reference's answer, or None where it panics (added tokens that strip into each other do that)."""
    try:
        return function(*values, **options)
    except BaseException as error:  # the binding's PanicException is no Exception
        if type(error).__name__ != "PanicException":
            raise
        return None


def compare_file(arguments, seed, report_rows):
    variant = Variant(seed)
    content = variant.file()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
        reference = Tokenizer.from_file(f"{folder}/tokenizer.json")
        answers = [(text, unless_panic(reference.encode, text, add_special_tokens=False))
                   for text in variant.texts(content["added_tokens"], arguments.texts)]
        answers = [(text, encoding.ids) for text, encoding in answers if encoding is not None]
        ours = [line["ids"] for line in run_lines(arguments.binary, "tokenize", folder, [text for text, _ in answers])]
        report_rows["ids"] += [((seed, text), our, their) for (text, their), our in zip(answers, ours, strict=True)]
        every = list(variant.vocabulary.values())
        lines = [their for _, their in answers] + [variant.random.choices(every, k=8) for _ in answers]
        ours = [line["text"] for line in run_lines(arguments.binary, "detokenize", folder, lines)]
        theirs = [unless_panic(reference.decode, line, skip_special_tokens=False) for line in lines]
        report_rows["decoded"] += [((seed, line), our, their) for line, our, their in zip(lines, ours, theirs, strict=True)
                                   if their is not None]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--texts", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rows = {"ids": [], "decoded": []}
    refused = 0
    for number in range(arguments.files):
        try:
            compare_file(arguments, arguments.seed * 100000 + number, rows)
        except subprocess.CalledProcessError as error:
            if error.returncode != UNSUPPORTED:
                raise
            refused += 1
    print(f"{refused} of {arguments.files} files refused as unsupported (an added token that is normalised to nothing)")
    report = Report()
    for kind, compared in rows.items():
        report.compare(f"{kind}, {arguments.files} random files", *zip(*compared))
    sys.exit(1 if report.differences else 0)


if __name__ == "__main__":
    main()
