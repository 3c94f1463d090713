"""Writes golden.json and layers.bin for one checkpoint: what Transformers decodes, in README.md's format.

Usage: make_goldens.py CKPT OUT [--tokens N]
"""

import argparse
import hashlib
import json
import pathlib
import zlib

import reference
from reference import Reference, greedy_bf16, stop_step, top
import numpy as np

TOP = 8
JUDGED_MARGIN = 1e-3


# ---- prompts -------------------------------------------------------------------------------------------------------

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {
            "type": "object",
            "required": ["city"],
            "properties": {
                "city": {"type": "string", "description": "Name of the city."},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
        },
    },
}
CALL = {
    "role": "assistant",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Lima"}}}
    ],
}
FILLER = (
    "The sky was grey that day. A boy walked along the river. The bread was still warm. Nobody spoke for a while. "
    "A train left the station at noon. "
)


def user(text):
    return {"role": "user", "content": text}


def model(text):
    return {"role": "assistant", "content": text}


CHATS = [
    ("capital", dict(messages=[user("What is the capital of France?")])),
    ("fact", dict(messages=[user("What is the opposite of hot?")])),
    ("name", dict(messages=[user("My name is Emma."), model("Nice to meet you, Emma."), user("What is my name?")])),
    (
        "system",
        dict(messages=[{"role": "system", "content": "Answer with one word."}, user("What is the capital of Peru?")]),
    ),
    ("thinking", dict(messages=[user("What is 3+4?")], enable_thinking=True)),
    ("tool", dict(messages=[user("What is the weather in Lima?")], tools=[WEATHER])),
    (
        "tool-result",
        dict(
            messages=[
                user("What is the weather in Lima?"),
                CALL,
                {"role": "tool", "tool_call_id": "c1", "name": "get_weather", "content": "sunny"},
            ],
            tools=[WEATHER],
        ),
    ),
    ("empty", dict(messages=[user("")])),
    ("unicode", dict(messages=[user("Grüße aus Köln! 你好 👋 naïve\n\n\tcafé")])),
    (
        "long",
        dict(
            messages=[user(FILLER * 12 + "The secret of Nora is lemon. " + FILLER * 6 + "What is the secret of Nora?")]
        ),
    ),
]
TEXTS = [("words", "The capital of France is"), ("code", "def add(a, b):\n    return")]


def chat_prompts(checkpoint):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    prompts = []
    for name, request in CHATS:
        options = {key: value for key, value in request.items() if key != "messages"}
        text = tokenizer.apply_chat_template(request["messages"], tokenize=False, add_generation_prompt=True, **options)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        direct = tokenizer.apply_chat_template(
            request["messages"], add_generation_prompt=True, return_dict=True, **options
        )["input_ids"]
        assert ids == direct and all(isinstance(token, int) for token in ids), name
        prompts.append(
            dict(
                name="chat " + name, kind="chat", ids=ids, text=text, request=dict(request, add_generation_prompt=True)
            )
        )
    for name, text in TEXTS:
        ids = [tokenizer.bos_token_id] + tokenizer(text, add_special_tokens=False)["input_ids"]
        prompts.append(dict(name="text " + name, kind="text", ids=ids, text=text))
    return prompts


def id_prompts(ref, seed, has_tokenizer):
    """Prompts of random ids, around the window and beyond, some with typed placeholders and with the pad id."""
    rng = np.random.default_rng(seed)
    window = ref.window
    lengths = [1, 2, window - 1, window, window + 1, 2 * window + 3, 3 * window, 300, 333]
    if not has_tokenizer:
        lengths += [3, 5, 17, 31, 40, 63, 64, 65, 128]
    prompts = [
        dict(name=f"random {length}", kind="ids", ids=rng.integers(0, ref.vocab_size, length).tolist())
        for length in lengths
    ]
    prompts.append(dict(name="bos alone", kind="ids", ids=[ref.bos]))
    special = ref.placeholder_ids() or rng.integers(0, ref.vocab_size, 3).tolist()
    placed = rng.integers(0, ref.vocab_size, window + 5)
    placed[[1, 4, 5]], placed[-1] = special[:3], special[0]
    prompts.append(dict(name="typed placeholders", kind="ids", ids=placed.tolist()))
    padded = rng.integers(0, ref.vocab_size, 12)
    padded[[0, 3, 4]] = ref.config.pad_token_id or 0
    padded[7] = 0
    prompts.append(dict(name="pad ids inside", kind="ids", ids=padded.tolist()))
    return [prompt for prompt in prompts if prompt["ids"]]


# ---- runs ----------------------------------------------------------------------------------------------------------


def describe(index, precision, new, rows, ref, capped=None, exceptions=None):
    ids = np.stack([top(row, TOP) for row in rows])
    run = dict(
        prompt=index,
        precision=precision,
        ids=new,
        stop_step=stop_step(new, ref.eos),
        top_ids=ids.ravel().tolist(),
        top_logits=np.take_along_axis(rows, ids, 1).astype(np.float32).ravel(),
        margins=np.array([ref.margin(row) for row in rows]),
    )
    if precision == "bf16":
        run.update(capped_margins=np.array([ref.margin(row) for row in capped]), exceptions=exceptions)
    else:
        run["unjudged"] = [step for step, margin in enumerate(run["margins"]) if margin < JUDGED_MARGIN]
    return run


def check_stops(ref, ids, run):
    """With stops obeyed the reference must give the same tokens up to and with the stop id."""
    if run["stop_step"] < 0 or run.get("exceptions"):
        return
    stopped, _ = ref.generate(ids, len(run["ids"]), stop=True)
    assert stopped == run["ids"][: run["stop_step"] + 1], (stopped, run["ids"])


def make_runs(checkpoint, precision, prompts, tokens):
    ref = Reference(checkpoint, precision)
    runs = []
    for index, prompt in enumerate(prompts):
        ids = prompt["ids"]
        if precision == "bf16":
            new, rows, capped, exceptions = greedy_bf16(ref, ids, tokens)
            run = describe(index, precision, new, rows, ref, capped, exceptions)
            for step, token in exceptions:
                print(
                    f"  exception: prompt '{prompt['name']}' step {step}: cached decode {token}, full pass {new[step]}"
                )
        else:
            new, rows = ref.generate(ids, tokens, stop=False)
            run = describe(index, precision, new, rows, ref)
            again, _, _, _ = ref.full_pass(ids + new)
            again = again[len(ids) - 1 : len(ids) - 1 + tokens]
            noise = float(np.abs(again - rows).max())
            assert (
                noise < JUDGED_MARGIN
            ), f"{prompt['name']}: the reference differs from itself by {noise}: margins cannot judge it"
            for step in range(tokens):
                assert step in run["unjudged"] or ref.choose(again[step]) == new[step], (prompt["name"], step)
        check_stops(ref, ids, run)
        runs.append(run)
        print(
            f"  {precision} {prompt['name']:20s} stop {run['stop_step']:3d} margin {run['margins'].min():.2g}",
            flush=True,
        )
    return ref, runs


# ---- layers --------------------------------------------------------------------------------------------------------


def fnv1a(rows):
    """rows: uint16 [count, columns] -> uint64 [count]; FNV-1a over the little-endian bytes of each row."""
    data = np.ascontiguousarray(rows.astype("<u2")).view(np.uint8).reshape(len(rows), -1).astype(np.uint64)
    value = np.full(len(rows), 14695981039346656037, np.uint64)
    prime = np.uint64(1099511628211)
    with np.errstate(over="ignore"):
        for column in data.T:
            value = (value ^ column) * prime
    return value


def make_layers(ref, prompts, runs, chosen):
    data, passes, raw = bytearray(), [], []
    pending = []
    for index in chosen:
        ids = prompts[index]["ids"] + runs[index]["ids"]
        _, _, extended, stages = ref.full_pass(ids, record=True)
        entry = dict(prompt=index, ids=extended, count=len(ids), stages=[])
        for number, (name, values) in enumerate(stages):
            entry["stages"].append(dict(name=name, columns=values.shape[1], offset=len(data)))
            data += fnv1a(values).astype("<u8").tobytes()
            row = len(prompts[index]["ids"]) - 1  # the row that decides the first token
            if not passes:
                pending.append((0, number, row, values[row]))
        passes.append(entry)
    for number, stage, row, values in pending:
        raw.append({"pass": number, "stage": stage, "row": row, "offset": len(data), "columns": len(values)})
        data += values.astype("<u2").tobytes()
    return bytes(data), passes, raw


# ---- writing -------------------------------------------------------------------------------------------------------


def number(value):
    """The shortest decimal that reads back to the same float32 through double."""
    text = str(np.float32(value))
    text = text[:-2] if text.endswith(".0") else text
    assert np.float32(float(text)) == np.float32(value)
    return text


def dump(value, indent=0):
    """JSON with flat arrays on one line and float32 numbers in their shortest form."""
    pad = " " * indent
    if isinstance(value, dict) and "columns" in value:
        return json.dumps(value)
    if isinstance(value, dict):
        lines = [f"{pad} {json.dumps(key)}: {dump(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{pad}}}"
    if isinstance(value, np.ndarray):
        return "[" + ",".join(number(item) for item in value) + "]"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"{pad} {dump(item, indent + 1)}" for item in value) + f"\n{pad}]"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(dump(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=64, help="new tokens of every run (default 64)")
    args = parser.parse_args()
    pins = reference.check_pins()

    has_tokenizer = (args.checkpoint / "tokenizer.json").exists()
    ref = Reference(args.checkpoint, "bf16")
    seed = zlib.crc32(args.checkpoint.resolve().name.encode())
    prompts = (chat_prompts(args.checkpoint) if has_tokenizer else []) + id_prompts(ref, seed, has_tokenizer)
    assert len(prompts) >= 20, len(prompts)
    print(args.checkpoint.name, len(prompts), "prompts")

    ref, bf16 = make_runs(args.checkpoint, "bf16", prompts, args.tokens)
    # Layers: one prompt of two windows and more, one of placeholders, and the first (a chat where there is one).
    names = [prompt["name"] for prompt in prompts]
    chosen = [
        names.index(f"random {2 * ref.window + 3}"),
        names.index("typed placeholders"),
        0,
        names.index("random 300"),
    ]
    data, passes, raw = make_layers(ref, prompts, bf16, chosen)
    _, fp32 = make_runs(args.checkpoint, "fp32", prompts, args.tokens)

    golden = dict(
        format="gemmatrace-golden-1",
        versions=reference.versions(),
        pins=pins,
        files=reference.file_hashes(args.checkpoint),
        vocab_size=ref.vocab_size,
        sliding_window=ref.window,
        layers=ref.layers,
        softcap=ref.softcap,
        eos_token_ids=ref.eos,
        suppress_token_ids=ref.suppressed,
        top=TOP,
        judged_margin_fp32=JUDGED_MARGIN,
        max_new_tokens=args.tokens,
        prompts=prompts,
        runs=bf16 + fp32,
        layer_file=dict(
            name="layers.bin", sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), passes=passes, raw_rows=raw
        ),
    )
    args.out.mkdir(parents=True, exist_ok=True)
    text = dump(golden) + "\n"
    json.loads(text)
    (args.out / "layers.bin").write_bytes(data)
    (args.out / "golden.json").write_text(text, encoding="utf-8")
    unjudged = sum(len(run["unjudged"]) for run in fp32)
    ties = sum(int((run["capped_margins"] == 0).sum()) for run in bf16)
    exceptions = sum(len(run["exceptions"]) for run in bf16)
    print(
        f"{args.checkpoint.name}: {len(text.encode())} bytes golden.json, {len(data)} bytes layers.bin; "
        f"{unjudged} fp32 steps unjudged, {ties} bf16 ties after the cap, {exceptions} exceptions"
    )


if __name__ == "__main__":
    main()
