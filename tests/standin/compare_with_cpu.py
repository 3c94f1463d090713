"""Compiles checkpoints with the stand-in compiler, serves them on the stand-in runtime in a process of their own, and
compares every token that they give over HTTP with the CPU's: equal, or apart where the CPU's two best are as good as
equal. One line for each; status 0 only when all hold."""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
os.environ.setdefault("GEMMATRACE_ROOT", str(TESTS.parent))
sys.path[:0] = [str(TESTS / "server")]
from support import Server  # noqa: E402  (the server's, before the commands' module of the same name)

del sys.modules["support"]
sys.path[:0] = [str(TESTS / "cli")]
from standin_neuron import Standin, compiled_bundle  # noqa: E402

ROOT = TESTS.parent
FAMILIES = ["demo", "e2b", "e4b", "12b", "26b-a4b", "31b"]
CONTEXT, CHUNK, SLOTS = "128,256", 32, 2
# Log probabilities this near may change places: logits of a bf16 program differ from the CPU's by up to 6 % of the
# largest (docs/programs.md).
NEAR = 0.5
LENGTHS = [100, 65, 40, 1]  # of prompts: past the window of 64 tokens, across borders of chunks and the smaller bucket


def prompts_of(checkpoint):
    """Golden prompts of the checkpoint, the nearest of each length or shorter."""
    golden = json.loads((checkpoint / "golden.json").read_text(encoding="utf-8"))
    prompts = [prompt["ids"] for prompt in golden["prompts"]]
    return [max((ids for ids in prompts if len(ids) <= length), key=len) for length in LENGTHS]


def ask(server, ids, tokens):
    """Token texts of a greedy completion, and of each the two best log probabilities. Asked again without them, which
    takes the ranks' choices and reads no logits, the text must be the same."""
    body = {"prompt": ids, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    choices = []
    for further in ({"logprobs": 2}, {}):
        answer = server.request("POST", "/v1/completions", body | further)
        if answer.status != 200:
            raise SystemExit(f"error: the server answered {answer.status}: {answer.body.decode()}")
        choices += answer.json()["choices"]
    if choices[0]["text"] != choices[1]["text"]:
        raise SystemExit(f"error: {choices[1]['text']!r} without log probabilities, {choices[0]['text']!r} with them")
    logprobs = choices[0]["logprobs"]
    return logprobs["tokens"], [sorted(best.values(), reverse=True) for best in logprobs["top_logprobs"]]


def compare(family, ranks, tokens, folder):
    """(tokens compared, places where near ties parted the two, sentence about the first real difference or None)."""
    checkpoint = ROOT / "models" / family
    prompts = prompts_of(checkpoint)
    bundle = compiled_bundle(folder, checkpoint, tp=ranks, batch=SLOTS, context=CONTEXT, chunk=CHUNK)
    with Standin(cores=max(2, ranks)) as standin:
        on_device = ("--device", "neuron", "--bundle", bundle)
        with Server(*on_device, checkpoint=checkpoint, environment=standin.environment()) as device:
            given = [ask(device, ids, tokens)[0] for ids in prompts]
    with Server(checkpoint=checkpoint) as cpu:
        expected = [ask(cpu, ids, tokens) for ids in prompts]
    compared = parted = 0
    for number, (ours, (theirs, best)) in enumerate(zip(given, expected)):
        if len(ours) != tokens or len(theirs) != tokens:
            return compared, parted, f"prompt {number} gave {len(ours)} and {len(theirs)} of {tokens} tokens"
        for place, (one, other) in enumerate(zip(ours, theirs)):
            if one == other:
                compared += 1
                continue
            if best[place][0] - best[place][1] > NEAR:
                return compared, parted, (f"prompt {number}, token {place}: {one!r} where the CPU says {other!r}, "
                                          f"{best[place][0] - best[place][1]:.2f} before the next")
            parted += 1
            break  # from here on they answer different texts
    return compared, parted, None


def main():
    parser = argparse.ArgumentParser(prog="tests/standin/demo", description=__doc__,
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--family", default="demo", help=f"one of {', '.join(FAMILIES)}, or all; or a folder with a checkpoint and its golden.json")
    parser.add_argument("--tp", default="2", help="ranks, a list, e.g. 1,2,4")
    parser.add_argument("--tokens", type=int, default=64, help="generated for each prompt")
    arguments = parser.parse_args()
    failed = False
    for family in FAMILIES if arguments.family == "all" else [arguments.family]:
        for ranks in map(int, arguments.tp.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                compared, parted, difference = compare(family, ranks, arguments.tokens, folder)
            what = difference or (f"{compared} tokens of {len(LENGTHS)} answers equal the CPU's"
                                  + (f", {parted} answers part at a near tie" if parted else ""))
            print(f"models/{family} at TP {ranks} on the stand-ins, over HTTP: {what}", flush=True)
            failed |= difference is not None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
