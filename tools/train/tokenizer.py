"""Builds a small byte-fallback BPE tokenizer in Gemma's form, with Gemma 4's ids below 494, and its config file."""

import json
import re
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPACE = "\u2581"  # what the normalizer writes for a space
VOCAB_SIZE = 1280
LEARNED_FROM = 494  # pad..mask 0-4, tools 46-52, marks 98-106, newline runs 107-137, space runs 138-167, bytes 238-493

FIXED = {
    0: "<pad>",
    1: "<eos>",
    2: "<bos>",
    3: "<unk>",
    4: "<mask>",
    46: "<|tool>",
    47: "<tool|>",
    48: "<|tool_call>",
    49: "<tool_call|>",
    50: "<|tool_response>",
    51: "<tool_response|>",
    52: '<|"|>',
    98: "<|think|>",
    100: "<|channel>",
    101: "<channel|>",
    105: "<|turn>",
    106: "<turn|>",
}
MEDIA = ["<|image>", "<|audio>", "<|image|>", "<|audio|>", "<image|>", "<audio|>", "<|video|>"]  # the last ids
MEDIA_KEYS = {
    "boi_token_id": "<|image>",
    "eoi_token_id": "<image|>",
    "image_token_id": "<|image|>",
    "boa_token_id": "<|audio>",
    "eoa_token_index": "<audio|>",
    "audio_token_id": "<|audio|>",
    "video_token_id": "<|video|>",
}
NEWLINES, SPACES = range(1, 32), range(2, 32)

# Scripts beside ASCII that get single characters; all others go through bytes.
EXTRA_CHARACTERS = (
    "\u2581àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßÀÁÂÄÅÆÇÈÉÊËÍÎÑÓÔÖØÚÛÜœŒčďěłńřśšťůžŁŠŽ«»¡¿§°±²³µ·×÷€£¥©®…–—‘’“”„•"
    "αβγδεζηθικλμνξοπρστυφχψωΔΣΩабвгдежзийклмнопрстуфхцчшщыьэюяАБВГДЕЖИКЛМНОПРСТУЯ"
    "的一是不了人我在有他你好中国大小水火日月こんにちはありがとう世界"
).strip()


def control_tokens():
    return list(FIXED.values()) + MEDIA


def learn_pieces(texts, count):
    """The most useful pieces of the corpus in rank order: words or parts of words, at most one space in front."""
    control = re.compile("|".join(re.escape(token) for token in control_tokens()))
    words = Counter()
    for text in texts:
        for stretch in control.split(text):
            # Letters, each digit, and marks are kept apart, so that "Peru?" and "Peru" share their pieces.
            words.update(
                re.findall(SPACE + r"?(?:[^\W\d_]+|\d|[^\w\s" + SPACE + r"]{1,2}|_)", stretch.replace(" ", SPACE))
            )
    trainer = trainers.BpeTrainer(vocab_size=6000, min_frequency=2, show_progress=False)
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Split("\n", behavior="isolated")
    learner.train_from_iterator(
        ("\n".join([word] * min(times, 3000)) for word, times in words.items() if not word[-1].isdigit()), trainer
    )
    ranked = sorted(learner.get_vocab().items(), key=lambda entry: entry[1])
    return [piece for piece, _ in ranked if len(piece) > 1 and "\n" not in piece][:count]


def lay_out(texts):
    """The vocabulary, id by id."""
    tokens = dict(FIXED)
    tokens |= {106 + run: "\n" * run for run in NEWLINES}
    tokens |= {136 + run: SPACE * run for run in SPACES}
    tokens |= {238 + byte: f"<0x{byte:02X}>" for byte in range(256)}
    unused = 0
    for token_id in range(LEARNED_FROM):
        if token_id not in tokens:
            tokens[token_id] = f"<unused{unused}>"
            unused += 1
    characters = [chr(code) for code in range(33, 127)]
    characters += [character for character in dict.fromkeys(EXTRA_CHARACTERS) if character not in characters]
    room = VOCAB_SIZE - LEARNED_FROM - len(characters) - len(MEDIA)
    pieces = learn_pieces(texts, room)
    usable = set(characters)
    assert all(set(piece) <= usable for piece in pieces), "a learned piece holds a character without an id"
    order = pieces + [f"<unused{unused + number}>" for number in range(room - len(pieces))] + characters + MEDIA
    tokens |= {LEARNED_FROM + position: token for position, token in enumerate(order)}
    assert len(tokens) == len(set(tokens.values())) == VOCAB_SIZE
    return [tokens[token_id] for token_id in range(VOCAB_SIZE)]


def derive_merges(tokens, newlines_are_added):
    """Every way to make a piece of two others, piece by piece in id order, as a conversion from SentencePiece does."""
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    not_text = set(control_tokens())
    merges = []
    for token in tokens:
        if len(token) < 2 or token in not_text or re.fullmatch(r"<unused\d+>|<0x..>", token):
            continue
        if newlines_are_added and token[0] == "\n":
            continue
        splits = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        merges += sorted(
            ((left, right) for left, right in splits if left in ids and right in ids),
            key=lambda pair: (ids[pair[0]], ids[pair[1]]),
        )
    return merges


def tokenizer_json(tokens, newlines_are_added=False, old_merges=False):
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    merges = derive_merges(tokens, newlines_are_added)
    added = [(token, True) for token in control_tokens()]
    if newlines_are_added:
        added += [("\n" * run, False) for run in NEWLINES]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": ids[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": special,
            }
            for token, special in sorted(added, key=lambda entry: ids[entry[0]])
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": ids,
            "merges": [" ".join(pair) for pair in merges] if old_merges else [list(pair) for pair in merges],
        },
    }


def tokenizer_config(positions):
    return {
        "tokenizer_class": "GemmaTokenizer",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "padding_side": "left",
        "model_max_length": positions,
        "clean_up_tokenization_spaces": False,
        "boi_token": "<|image>",
        "eoi_token": "<image|>",
        "image_token": "<|image|>",
        "boa_token": "<|audio>",
        "eoa_token": "<audio|>",
        "audio_token": "<|audio|>",
        "sot_token": "<|turn>",
        "eot_token": "<turn|>",
        "soc_token": "<|channel>",
        "eoc_token": "<channel|>",
        "std_token": "<|tool>",
        "etd_token": "<tool|>",
        "stc_token": "<|tool_call>",
        "etc_token": "<tool_call|>",
        "str_token": "<|tool_response>",
        "etr_token": "<tool_response|>",
        "escape_token": '<|"|>',
        "think_token": "<|think|>",
    }


def write_tokenizer(folder, tokens, positions, **variant):
    folder = Path(folder)
    with open(folder / "tokenizer.json", "w", encoding="utf-8") as out:
        json.dump(tokenizer_json(tokens, **variant), out, ensure_ascii=False, indent=1)
    with open(folder / "tokenizer_config.json", "w", encoding="utf-8") as out:
        json.dump(tokenizer_config(positions), out, ensure_ascii=False, indent=2)
