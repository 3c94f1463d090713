"""Writes docs/programs.md: what the programs of the published sizes cost, as `gemmatrace compile --plan` counts it.

Standard library only. Usage: make_table.py PROGRAM > docs/programs.md
"""

import json
import subprocess
import sys

SHORT = "512,2K,8K,32K"
LONG = SHORT + ",128K"
CASES = [("E2B", 1, LONG), ("E2B", 2, LONG), ("E4B", 2, SHORT), ("12B", 2, SHORT), ("26B", 8, SHORT), ("31B", 8, SHORT)]
BATCHES = (1, 8)

# What must hold for every program (bytes, seconds, inputs, share over the floor).
LARGEST_PROTO, LONGEST_SECONDS, MOST_WEIGHT_INPUTS, MOST_OVER_FLOOR = 20e6, 10.0, 250, 0.05

INTRODUCTION = """# The programs of the published sizes

Written by `tools/programs/make_table.py build/release/gemmatrace > docs/programs.md`. The figures are counted from the
programs and from `config.json`, not measured on an accelerator. Prefills take 64 tokens. A program is named by its kind and
its bucket, the cached tokens that it reads.

- **MB** of proto are 10^6 bytes; **seconds** are of one core of the machine that wrote this page, to trace and write it.
- **reads**: bytes of weights, caches and other inputs that one rank reads in one step. An input that several instructions
  use counts once, also a cache that several layers read.
- **floor**: every weight once (of experts those that the rows choose, all different) and of the caches what the rows of a
  full bucket see: all of it in full layers, the window in sliding ones.
- **memory**: weights, caches, inputs, outputs, and the most that the program holds while it runs, of one rank, when the
  bucket is the whole context. A core has 16 GiB. About 1.4 of them go to code, rings and the runtime; what the compiler
  lays out as scratch replaces the temporaries that are counted here.
"""


def plan(program, size, ranks, batch, contexts):
    command = [program, "compile", "--like", size, "--tp", str(ranks), "--batch", str(batch), "--context", contexts,
               "--plan", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def faults(case):
    for program in case["programs"]:
        name = f"{case['model']} at {case['ranks']} ranks, batch {case['slots']}, {program['name']}"
        floor = program.get("floor_bytes")
        if program["findings"]:
            yield f"{name}: the verifier finds {program['findings']} faults"
        if program["proto_bytes"] >= LARGEST_PROTO or program["seconds"] >= LONGEST_SECONDS:
            yield f"{name}: {program['proto_bytes'] / 1e6:.1f} MB in {program['seconds']:.1f} s"
        if program["weight_inputs"] > MOST_WEIGHT_INPUTS:
            yield f"{name}: {program['weight_inputs']} weight inputs"
        if floor and program["bytes_read"] > (1 + MOST_OVER_FLOOR) * floor:
            yield f"{name}: reads {program['bytes_read'] / floor - 1:.1%} more than its floor"


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def memory_cell(case, program):
    gib = program["memory_bytes"] / 2**30
    fits = program["memory_bytes"] + case["reserved_bytes"] <= case["core_memory_bytes"]
    return f"{gib:.2f}" if fits else f"**{gib:.2f}**"


def of_kind(case, kind):
    return [program for program in case["programs"] if program["name"].startswith(kind)]


def decode_table(cases):
    yield "\n## Decode\n"
    yield "A token of every slot. Memory in bold leaves less than 1.4 GiB of a core.\n"
    yield row("model", "ranks", "batch", "bucket", "seconds", "MB", "instructions", "weight inputs", "reads MB",
              "over floor", "memory GiB")
    yield row("---", *["---:"] * 10)
    for case in cases:
        for program in of_kind(case, "decode"):
            over = program["bytes_read"] / program["floor_bytes"] - 1
            yield row(case["model"], case["ranks"], case["slots"], program["bucket"], f"{program['seconds']:.2f}",
                      f"{program['proto_bytes'] / 1e6:.2f}", program["instructions"], program["weight_inputs"],
                      f"{program['bytes_read'] / 1e6:.1f}", f"{over:.2%}", memory_cell(case, program))


def other_table(cases):
    yield "\n## Prefill and copy\n"
    yield "A chunk of one slot, and a slot's cache into another's, which a bundle of one slot does without.\n"
    yield row("model", "ranks", "batch", "bucket", "prefill seconds", "MB", "instructions", "reads MB", "memory GiB",
              "copy MB")
    yield row("---", *["---:"] * 9)
    for case in cases:
        copies = {program["bucket"]: program for program in of_kind(case, "copy")}
        for program in of_kind(case, "prefill"):
            copy = copies.get(program["bucket"])
            yield row(case["model"], case["ranks"], case["slots"], program["bucket"], f"{program['seconds']:.2f}",
                      f"{program['proto_bytes'] / 1e6:.2f}", program["instructions"],
                      f"{program['bytes_read'] / 1e6:.1f}", memory_cell(case, program),
                      f"{copy['proto_bytes'] / 1e6:.2f}" if copy else "")


def largest_table(cases, kind):
    """The largest result of each operation over all buckets and batches of a model and its ranks."""
    names = sorted({name for case in cases for program in of_kind(case, kind) for name in program["largest_by_operation"]})
    columns = list(dict.fromkeys((case["model"], case["ranks"]) for case in cases))
    yield f"\n### {kind.capitalize()}\n"
    yield row("operation", *[f"{model}, {ranks}" for model, ranks in columns])
    yield row("---", *["---:"] * len(columns))
    for name in names:
        cells = []
        for column in columns:
            buffers = [program["largest_by_operation"][name] for case in cases
                       if (case["model"], case["ranks"]) == column
                       for program in of_kind(case, kind) if name in program["largest_by_operation"]]
            largest = max(buffers, key=lambda buffer: buffer["bytes"], default=None)
            cells.append(f"{largest['bytes'] / 1e6:.2f} {largest['shape']}" if largest else "")
        yield row(name, *cells)


def main():
    program = sys.argv[1]
    cases = [plan(program, size, ranks, batch, contexts) for size, ranks, contexts in CASES for batch in BATCHES]
    print(INTRODUCTION, end="")
    for line in decode_table(cases):
        print(line)
    for line in other_table(cases):
        print(line)
    print("\n## Largest intermediates\n\nOf each operation the largest result that takes memory of its own, in MB, over all"
          " buckets and batches; columns are\nmodel and ranks.")
    for kind in ("decode", "prefill"):
        for line in largest_table(cases, kind):
            print(line)
    found = [fault for case in cases for fault in faults(case)]
    print("\n".join(found), file=sys.stderr)
    sys.exit(1 if found else 0)


main()
