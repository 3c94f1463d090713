"""Compares `gemmatrace tokenize` and `detokenize` with Hugging Face tokenizers on thousands of generated strings.

Ids, token strings, plain mode (control tokens stay text) and decoding with and without special tokens; text that is not
UTF-8 is given to single runs. Ends with status 1 and the first differences when anything differs."""

import argparse
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

from tokenizers import Tokenizer, __version__

from tokenizer_strings import Strings

SHOWN = 5  # differences of a kind that are printed


def run_lines(binary, command, checkpoint, inputs, *options):
    """One JSON value a line in, one JSON object a line out."""
    text = "".join(json.dumps(value) + "\n" for value in inputs)
    done = subprocess.run([binary, command, checkpoint, "--json", "--lines", *options], input=text.encode(),
                          stdout=subprocess.PIPE, check=True)
    outputs = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    if len(outputs) != len(inputs):
        sys.exit(f"{command}: {len(inputs)} lines in, {len(outputs)} out")
    return outputs


def special_names(checkpoint, reference):
    """Control tokens: special in tokenizer.json, or named so in tokenizer_config.json."""
    names = {token.content for token in reference.get_added_tokens_decoder().values() if token.special}
    path = Path(checkpoint) / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def name(value):
        return value.get("content") if isinstance(value, dict) else value

    for key, value in config.items():
        if key == "added_tokens_decoder":
            names |= {entry["content"] for entry in value.values() if entry.get("special")}
        elif key in ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"):
            names |= {name(entry) for entry in (value.values() if isinstance(value, dict) else value)}
        elif key.endswith("_token") and isinstance(name(value), str):
            names.add(name(value))
    return names


class Report:
    """Counts comparisons and prints the first differences of each kind."""

    def __init__(self):
        self.differences = 0

    def compare(self, kind, inputs, ours, theirs):
        wrong = [(given, our, their) for given, our, their in zip(inputs, ours, theirs, strict=True) if our != their]
        print(f"{kind}: {len(inputs)} compared, {len(wrong)} differ")
        for given, our, their in wrong[:SHOWN]:
            print(f"  input {given!r}\n  ours   {our!r}\n  theirs {their!r}")
        self.differences += len(wrong)


def reference_ids(reference, texts, keeps_control_text):
    reference.encode_special_tokens = keeps_control_text
    return [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=False)]


def check_encoding(arguments, reference, names, texts, report):
    ids = reference_ids(reference, texts, False)
    ours = run_lines(arguments.binary, "tokenize", arguments.checkpoint, texts)
    report.compare("ids", texts, [output["ids"] for output in ours], ids)
    report.compare("tokens", texts, [output["tokens"] for output in ours],
                   [[reference.id_to_token(token_id) for token_id in line] for line in ids])
    plain = [output["ids"] for output in run_lines(arguments.binary, "tokenize", arguments.checkpoint, texts, "--plain")]
    # Words of tokenizer_config.json are control tokens for us alone, so their texts are left out of this comparison.
    extra = names - {token.content for token in reference.get_added_tokens_decoder().values() if token.special}
    usable = [index for index, text in enumerate(texts) if not any(name in text for name in extra)]
    theirs = reference_ids(reference, [texts[index] for index in usable], True)
    report.compare("plain ids", [texts[index] for index in usable], [plain[index] for index in usable], theirs)
    unknown = json.loads(reference.to_str())["model"]["unk_token"]
    control = {reference.token_to_id(name) for name in names if name != unknown}
    found = [[token_id for token_id in line if token_id in control] for line in plain]
    report.compare("control ids in plain mode", texts, found, [[] for _ in texts])
    return ids


def check_decoding(arguments, reference, names, lines, report):
    control = {reference.token_to_id(name) for name in names}
    for options, kept in (((), lines), (("--skip-special",), [[i for i in line if i not in control] for line in lines])):
        ours = run_lines(arguments.binary, "detokenize", arguments.checkpoint, lines, *options)
        theirs = [reference.decode(line, skip_special_tokens=bool(options)) for line in kept]
        report.compare(f"decoded {' '.join(options)}".rstrip(), lines, [output["text"] for output in ours], theirs)


def random_ids(reference, seed, count):
    """Ids that no text would give: bytes in any order, control tokens anywhere."""
    chance = random.Random(seed)
    every = sorted(reference.get_vocab(with_added_tokens=True).values())
    byte_ids = [reference.token_to_id(f"<0x{byte:02X}>") for byte in range(256)]
    byte_ids = [token_id for token_id in byte_ids if token_id is not None] or every
    return [[chance.choice(chance.choice([every, byte_ids, byte_ids[0x80:] or every])) for _ in range(chance.randint(0, 12))]
            for _ in range(count)]


def check_broken_utf8(arguments, reference, report):
    chance = random.Random(arguments.seed)
    samples = [b"\xff", b"a\xc3", b"\xe2\x82", b"\xf0\x9f\x98 x", b"\xed\xa0\x80\xed\xb0\x80", b"\xc0\xaf\xf5"]
    samples += [chance.randbytes(20) for _ in range(6)]
    ours = []
    for sample in samples:
        done = subprocess.run([arguments.binary, "tokenize", arguments.checkpoint, "--json"], input=sample,
                              stdout=subprocess.PIPE, check=True)
        ours.append(json.loads(done.stdout)["ids"])
    report.compare("not UTF-8", samples, ours,
                   reference_ids(reference, [sample.decode("utf-8", errors="replace") for sample in samples], False))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--count", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    reference = Tokenizer.from_file(str(Path(arguments.checkpoint) / "tokenizer.json"))
    names = special_names(arguments.checkpoint, reference)
    added = [token.content for token in reference.get_added_tokens_decoder().values()]
    texts = list(itertools.islice(Strings(arguments.seed, sorted(set(added) | names)), arguments.count))
    names = {name for name in names if reference.token_to_id(name) is not None}
    print(f"{arguments.checkpoint}: tokenizers {__version__}, {len(texts)} strings, {len(names)} control tokens")
    report = Report()
    ids = check_encoding(arguments, reference, names, texts, report)
    check_decoding(arguments, reference, names, ids + random_ids(reference, arguments.seed, arguments.count // 4), report)
    check_broken_utf8(arguments, reference, report)
    sys.exit(1 if report.differences else 0)


if __name__ == "__main__":
    main()
