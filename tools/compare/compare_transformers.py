"""Compares the binary with Transformers 5.13.0 on any checkpoint, with prompts of its own; ends with 1 on a difference.

Usage: compare_transformers.py CKPT --binary build/release/gemmatrace [--prompts N] [--precision bf16|fp32|both]
                               [--max-tokens N] [--seed S]

bf16: free greedy runs are equal token for token, and the 8 best logits of every step are equal bit for bit, to the
reference's full pass.
fp32: tokens are equal wherever the reference's margin is 1e-3 or more (behind a closer step the run is resumed with the
reference's token), and the 8 best logits are within 1e-3 of the reference's.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "goldens"))
import reference
from reference import Reference, greedy_bf16, top
import numpy as np

TOP = 8
CLOSE = 1e-3


def prompts(ref, count, seed):
    """Random ids of 1, W-1, W, W+1, 3W and 300 tokens, then of random lengths; every second with typed placeholders."""
    rng = np.random.default_rng(seed)
    lengths = [n for n in (1, ref.window - 1, ref.window, ref.window + 1, 3 * ref.window, 300) if n > 0]
    while len(lengths) < count:
        lengths.append(int(rng.integers(2, 4 * ref.window + 40)))
    special = ref.placeholder_ids()
    out = []
    for index, length in enumerate(lengths[:count]):
        ids = rng.integers(0, ref.vocab_size, length)
        if index % 2 and special and length > 4:
            ids[rng.integers(0, length, 3)] = rng.choice(special, 3)
        out.append(ids.tolist())
    return out


def run_binary(binary, checkpoint, ids, tokens, precision, extra):
    command = [
        str(binary),
        "generate",
        str(checkpoint),
        "--ids",
        ",".join(map(str, ids)),
        "--max-tokens",
        str(tokens),
        "--temperature",
        "0",
        "--ignore-eos",
        "--precision",
        precision,
        "--top-logits",
        str(TOP),
        "--json",
        *extra,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stderr}")
    result = json.loads(done.stdout)
    assert result["prompt_ids"] == ids, "the binary changed the prompt"
    return result["token_ids"], result["top_logits"]


def first_difference(ours, theirs):
    return next(
        (step for step, (a, b) in enumerate(zip(ours, theirs)) if a != b),
        None if len(ours) == len(theirs) else min(len(ours), len(theirs)),
    )


def compare_bf16(run, ref, ids, tokens):
    """Returns (faults, note)."""
    new, rows, capped, exceptions = greedy_bf16(ref, ids, tokens)
    ours, logits = run(ids, tokens, "bf16")
    faults = []
    step = first_difference(ours, new)
    if step is not None:
        faults.append(
            f"token {step}: ours {ours[step:step + 1]}, reference {new[step]}, capped margin {ref.margin(capped[step])}"
        )
    judged = tokens if step is None else step + 1  # logits of the step that differs still have the same prefix
    for at in range(judged):
        best = top(rows[at], TOP)
        wanted = [(int(token), float(rows[at][token])) for token in best]
        got = [(token, float(np.float32(value))) for token, value in logits[at]]
        if got != wanted:
            faults.append(f"top logits of step {at}: ours {got[:3]}, reference {wanted[:3]}")
            break
    return faults, f"{judged} steps" + (
        f", {len(exceptions)} where the reference's cache disagrees with its full pass" if exceptions else ""
    )


def compare_fp32(run, ref, ids, tokens):
    new, rows = ref.generate(ids, tokens, stop=False)
    margins = [float(ref.margin(row)) for row in rows]
    faults, worst, start, unjudged = [], 0.0, 0, 0
    while start < tokens:
        ours, logits = run(ids + new[:start], tokens - start, "fp32")
        step = first_difference(ours, new[start:])
        last = tokens - start if step is None else step + 1
        for at in range(last):
            worst = max(worst, max(abs(np.float32(value) - rows[start + at][token]) for token, value in logits[at]))
            ranked = rows[start + at][top(rows[start + at], TOP)]
            worst = max(worst, float(np.abs(ranked - np.array([value for _, value in logits[at]], np.float32)).max()))
        if step is None:
            break
        if margins[start + step] >= CLOSE:
            faults.append(
                f"token {start + step}: ours {ours[step:step + 1]}, reference {new[start + step]}, "
                f"margin {margins[start + step]:.3g}"
            )
            break
        unjudged += 1
        start += step + 1
    if worst > CLOSE:
        faults.append(f"a top logit differs by {worst:.3g}")
    return faults, f"logits within {worst:.1e}" + (f", {unjudged} close steps resumed" if unjudged else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("build/release/gemmatrace"))
    parser.add_argument(
        "--prompts", type=int, default=6, help="how many; the first six have 1, W-1, W, W+1, 3W and 300 tokens"
    )
    parser.add_argument("--precision", choices=("bf16", "fp32", "both"), default="both")
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--binary-options",
        default="",
        help="further options for the binary, separated by spaces: '--isa scalar --threads 2'",
    )
    args = parser.parse_args()
    reference.check_pins()
    if not args.binary.exists():
        raise SystemExit(f"no binary at {args.binary}: build it, or name it with --binary")

    def run(ids, tokens, precision):
        return run_binary(args.binary, args.checkpoint, ids, tokens, precision, args.binary_options.split())

    failed = total = 0
    for precision, compare in (("bf16", compare_bf16), ("fp32", compare_fp32)):
        if args.precision not in (precision, "both"):
            continue
        ref = Reference(args.checkpoint, precision)
        for ids in prompts(ref, args.prompts, args.seed):
            start = time.monotonic()
            faults, note = compare(run, ref, ids, args.max_tokens)
            total += 1
            verdict = "DIFFERENT" if faults else "equal"
            failed += bool(faults)
            print(
                f"{args.checkpoint.name:20s} {precision} {len(ids):4d} tokens  {verdict:9s} {note}"
                f"  ({time.monotonic() - start:.1f} s)",
                flush=True,
            )
            for fault in faults:
                print(f"    {fault}")
    print(f"{args.checkpoint.name}: {total - failed} of {total} runs equal")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
