"""XLA's CPU compiler, our evaluator and the CPU backend agree on the programs of the bundled checkpoints, and all see
planted faults.

Usage: judge_programs.py PROGRAM_VALUES HLO_VALUES [--short | options that choose]
in the environment of tools/judge/requirements.lock. Prints a line for each program, and at the end the figures as a
table; status 1: something disagrees.

Each program is judged in two ways. Free: it runs from its inputs to its results, with caches written in place, once by
our evaluator and once by XLA; then logits, best values and caches are close, the logits of both are close to those of
the CPU backend, which computes each slot anew from its tokens, and each choice is the greedy one. Lock step: each
instruction alone, on XLA's operands, within the bounds of tools/judge_hlo.py; in bf16, for in fp32 free runs agree to
a few roundings of the last bit, which leaves it nothing to find.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import judge_hlo  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

MODELS = ["demo", "e2b", "e4b", "12b", "26b-a4b", "31b"]
SLOTS, CHUNK, BUCKETS = 3, 16, "64,128"
# Where a family repeats, one repetition, which compiles quickly: the first layers.
REPETITION = {"12b": 3, "26b-a4b": 2, "31b": 4}
# In the small bucket, where a ring is read in part; in the large one past the window of 64 and the ring of 80 rows. The
# last chunks are cut short; slots pause in the decodes.
STEPS = ["prefill:1:20:write", "prefill:0:100:write", "copy:0:2:98:write", "decode:1:write", "decode:0,2:write"]
SMALL_BUCKET_STEPS = ["prefill:1:20:write", "decode:1:write"]  # judged on 2 ranks; only slices have other sizes
SHORT_STEPS = ["prefill:0:100", "copy:0:2:98:write", "decode:0,2:write"]
# A mask that is off by one shows where stale rows lie behind the end of a short slot, a window where a slot is long.
BROKEN_STEPS = ["prefill:1:20", "trim:1:6", "prefill:1:4:break", "prefill:0:100:break", "prefill:2:6", "trim:2:3",
                "decode:0,2:break"]
FAULTS = {"operands", "window", "mask", "groups", "rank"}
# Apart by how much of the largest value: the order of sums (1.4e-6 at most so far); in bf16 also the roundings that it
# flips (0.017).
BOUND = {"fp32": 1e-5, "bf16": 0.06}


def text_config(model):
    config = json.loads((ROOT / "models" / model / "config.json").read_text())
    return config.get("text_config", config)


def soft_cap(model):
    return text_config(model).get("final_logit_softcapping")


def decided(logits, precision, cap):
    """What the decision compares: in bf16 the capped logits, rounded after division, tanh and product."""
    if precision == "fp32" or not cap:
        return logits
    bf16 = ml_dtypes.bfloat16
    ratio = (logits / np.float32(cap)).astype(bf16)
    bent = np.tanh(ratio.astype(np.float64)).astype(np.float32).astype(bf16)
    return (bent.astype(np.float32) * np.float32(cap)).astype(bf16).astype(np.float32)


def with_layers(checkpoint, folder, count):
    """The checkpoint, without per-layer inputs, as if it ended after its first layers."""
    folder.mkdir()
    config = json.loads((checkpoint / "config.json").read_text())
    text = config.get("text_config", config)
    text["num_hidden_layers"] = count
    text["layer_types"] = text["layer_types"][:count]
    (folder / "config.json").write_text(json.dumps(config))
    tensors, kept = {}, b""
    for path in sorted(checkpoint.glob("*.safetensors")):
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        for name, tensor in json.loads(data[8:begin]).items():
            layer = re.search(r"\blayers\.(\d+)\.", name)
            if name == "__metadata__" or (layer and int(layer[1]) >= count):
                continue
            first, end = tensor["data_offsets"]
            tensors[name] = tensor | {"data_offsets": [len(kept), len(kept) + end - first]}
            kept += data[begin + first:begin + end]
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + kept)
    return folder


class Execution:
    """One program with its inputs, as program_values wrote it."""

    def __init__(self, folder, ranks, hlo_values, has_experts=False):
        self.folder, self.ranks, self.hlo_values, self.has_experts = folder, ranks, hlo_values, has_experts
        self.path = folder / "module.hlo.pb"
        self.kind = folder.name.split("-")[1]
        self.name = judge_hlo.grouped(self.path.read_bytes())[1][0].decode()  # with the bucket
        self.reference = {int(path.stem): np.fromfile(path, np.float32) for path in (folder / "cpu").glob("*.bin")}

    def results(self, program, folder):
        return {name: [i.array(judge_hlo.value_file(folder, rank, name).read_bytes()) for rank in range(self.ranks)]
                for name, i in program.outputs()}

    def ours(self):
        return self.results(judge_hlo.Program(self.path.read_bytes()), self.folder / "ours")

    def theirs(self, path):
        program = judge_hlo.Program(path.read_bytes())
        arguments = judge_hlo.read_arguments(program, self.folder / "in", self.ranks)
        return dict(zip([name for name, _ in program.outputs()],
                        judge_hlo.execute(program.data, arguments, self.ranks)))

    def broken(self, faults):
        """Each fault with the results of the program that has it, given the same inputs: by our evaluator, by XLA."""
        for path in sorted(self.folder.glob("broken-*.hlo.pb")):
            fault = path.name.split(".")[0].split("-")[1]
            if fault not in faults:
                continue
            out = self.folder / f"ours-{fault}"
            subprocess.run([self.hlo_values, "run", path, str(self.ranks), self.folder / "in", out], check=True)
            yield fault, (self.results(judge_hlo.Program(path.read_bytes()), out), self.theirs(path))


def distance(a, b):
    """The largest difference of one result over all ranks, as a share of its largest value; NaN is infinitely far."""
    a, b = (np.stack([np.asarray(shard).astype(np.float64) for shard in shards]) for shards in (a, b))
    apart = np.max(np.abs(a - b), initial=0.0)
    return float(apart / max(np.max(np.abs(a), initial=0.0), 1e-30)) if np.isfinite(apart) else float("inf")


def distances(a, b):
    """Of all results but the chosen ids."""
    return {name: distance(a[name], b[name]) for name in a if name != "best_id"}


def choice_faults(results, precision, cap):
    """Where a rank's id is not the first of the highest values among its own logits, or its value not their largest."""
    faults = []
    for rank, logits in enumerate(results["logits"]):
        logits = np.asarray(logits)
        ids = np.argmax(decided(logits, precision, cap), axis=1) + rank * logits.shape[1]
        if not np.array_equal(ids, np.asarray(results["best_id"][rank])):
            faults.append(f"rank {rank} chose {results['best_id'][rank]}, not {ids}")
        if not np.array_equal(logits.max(axis=1), np.asarray(results["best_value"][rank])):
            faults.append(f"rank {rank}: its best value is not its largest logit")
    return faults


def row_choice_faults(expected, got, precision, cap):
    """The id over all ranks may be another one only where the logits' differences explain it."""
    values = decided(expected, precision, cap)
    chosen, other = int(np.argmax(values)), int(np.argmax(decided(got, precision, cap)))
    rounding = 0.0 if precision == "fp32" else 2.0 ** -7 * abs(values[chosen])
    if values[chosen] - values[other] <= 2 * np.max(np.abs(expected - got)) + rounding:
        return []
    return [f"id {other} for {chosen}, and no near tie"]


def whole_logits(results):
    return np.concatenate([np.asarray(shard) for shard in results["logits"]], axis=1)


def reference_faults(execution, results, precision, cap):
    """Where results contradict the CPU backend or themselves; and the largest distance of the logits. In bf16 one step
    of a router's logit may pick another expert, and the row is another one: so in the prefill of all of 26b-a4b, whose
    last router has its second and third less than a step apart. A model with experts is held to it in fp32 alone."""
    faults, farthest, logits = choice_faults(results, precision, cap), 0.0, whole_logits(results)
    for row, expected in execution.reference.items():
        far = distance([expected], [logits[row]])
        farthest = max(farthest, far)
        if execution.has_experts and precision == "bf16":
            continue
        if not far <= BOUND[precision]:
            faults.append(f"row {row}: logits are {far:.2g} from the CPU backend's")
        else:
            faults += [f"row {row}: {fault}" for fault in row_choice_faults(expected, logits[row], precision, cap)]
    return faults, farthest


def free_faults(execution, precision, cap):
    """Disagreements of the whole program; and the figures, by column."""
    ours, theirs = execution.ours(), execution.theirs(execution.path)
    apart = distances(ours, theirs)
    figures = {"caches": max(far for name, far in apart.items() if "." in name)}
    if execution.kind == "copy":
        return [f"{name} is another one" for name, far in apart.items() if far != 0], figures
    faults = [f"{name} is {far:.2g} of its largest value apart" for name, far in apart.items()
              if not far <= BOUND[precision]]
    figures["logits"] = apart["logits"]
    for row in execution.reference:
        pair = whole_logits(ours)[row], whole_logits(theirs)[row]
        faults += [f"row {row}: {fault}" for fault in row_choice_faults(*pair, precision, cap)]
    for side, results in (("ours", ours), ("XLA", theirs)):
        found, figures[f"{side}-CPU"] = reference_faults(execution, results, precision, cap)
        faults += [f"{side}: {fault}" for fault in found]
    return faults, figures


def lock_step_faults(execution):
    comparison = judge_hlo.compare(execution.path, execution.ranks, execution.folder / "in", execution.hlo_values)
    faults = [f"{i.name} {i.opcode} on rank {rank}: {elements} elements out of bounds, worst {worst}"
              for i, rank, elements, worst in comparison.found]
    figures = {f"{opcode} {side}": share for (opcode, side), share in comparison.shares.items()}
    return faults, figures, comparison.words()


COLUMNS = ["logits", "caches", "ours-CPU", "XLA-CPU", "dot ours", "dot XLA", "reduce ours", "reduce XLA"]


class Judge:
    def __init__(self, options):
        self.options = options
        self.faults, self.programs, self.planted = [], 0, set()
        self.figures = {}  # (model, ranks, precision, kind) -> {column: the worst}

    def report(self, title, faults, words, since):
        verdict = "DISAGREES" if faults else "agrees"
        print(f"{title} {verdict}: {words} ({time.monotonic() - since:.1f} s)", flush=True)
        for fault in faults[:8]:
            print("   ", fault, flush=True)
        self.faults += [f"{title}: {fault}" for fault in faults]

    def written(self, folder, model, ranks, precision, steps, layers=None):
        """What the steps wrote; of the whole checkpoint, or of its first layers alone, which compile quickly."""
        folder = Path(folder)
        checkpoint = ROOT / "models" / model
        if layers:
            checkpoint = with_layers(checkpoint, folder / "checkpoint", layers)
        subprocess.run([self.options.program_values, checkpoint, folder / "written", str(ranks), precision, str(SLOTS),
                        str(CHUNK), BUCKETS, *steps], check=True)
        has_experts = bool(text_config(model).get("num_experts"))
        return [Execution(path, ranks, self.options.hlo_values, has_experts)
                for path in sorted((folder / "written").iterdir())]

    def keep(self, key, figures):
        row = self.figures.setdefault(key, {})
        for column, value in figures.items():
            row[column] = max(value, row.get(column, 0.0))

    def model(self, model, ranks, precision, steps):
        cap = soft_cap(model)
        layers = None if self.options.all_layers else REPETITION.get(model)
        with tempfile.TemporaryDirectory() as folder:
            for execution in self.written(folder, model, ranks, precision, steps, layers):
                if execution.kind not in self.options.steps:
                    continue
                self.programs += 1
                title = f"{model} tp{ranks} {precision} {execution.name}"
                key = model, ranks, precision, execution.kind
                if self.options.free == "with":
                    start = time.monotonic()
                    faults, figures = free_faults(execution, precision, cap)
                    self.keep(key, figures)
                    words = ", ".join(f"{column} {value:.1g}" for column, value in figures.items())
                    self.report(f"{title} free", faults, words, start)
                if self.options.lock_step == "with" and precision == "bf16":
                    start = time.monotonic()
                    faults, figures, words = lock_step_faults(execution)
                    self.keep(key, figures)
                    self.report(f"{title} lock step", faults, words, start)

    def broken(self, model, ranks, kinds, faults, layers=3):
        """Both engines agree on the broken program, and its results are refused whoever computed them. In fp32, so
        that a small fault is no rounding."""
        cap = soft_cap(model)
        with tempfile.TemporaryDirectory() as folder:
            for execution in self.written(folder, model, ranks, "fp32", BROKEN_STEPS, layers):
                if execution.kind not in kinds:
                    continue
                title = f"{model} tp{ranks} {execution.folder.name}"
                wrongly, _ = reference_faults(execution, execution.ours(), "fp32", cap)
                self.faults += [f"{title} without a fault: {fault}" for fault in wrongly]
                start = time.monotonic()
                for fault, (ours, theirs) in execution.broken(faults):
                    apart = max(distances(ours, theirs).values())
                    missed = [] if apart <= BOUND["fp32"] else ["the engines disagree on the broken program"]
                    words = f"engines {apart:.1g} apart"
                    for side, results in (("ours", ours), ("XLA", theirs)):
                        found, far = reference_faults(execution, results, "fp32", cap)
                        words += f"; {side} {far:.2g} from the CPU backend, {'refused' if found else 'not refused'}"
                        if found:
                            self.planted.add((fault, execution.kind, side))
                    self.report(f"{title} with the fault {fault}", missed, words, start)
                    start = time.monotonic()

    def all_planted(self, faults, kinds):
        """Each fault was refused in a program of each kind, by the results of either engine."""
        wanted = {(fault, kind, side) for fault in faults for kind in kinds for side in ("ours", "XLA")}
        self.faults += [f"the fault {fault} was not seen in a {kind} run by {side}"
                        for fault, kind, side in sorted(wanted - self.planted)]

    def table(self):
        print("| model | ranks | precision | program |", " | ".join(COLUMNS), "|")
        print("|---" * (4 + len(COLUMNS)) + "|")
        for key, row in self.figures.items():
            print("|", " | ".join(map(str, key)), "|",
                  " | ".join(f"{row[column]:.2g}" if column in row else "" for column in COLUMNS), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program_values")
    parser.add_argument("hlo_values")
    parser.add_argument("--short", action="store_true", help="a subset, for the suite")
    parser.add_argument("--models", default=MODELS, type=lambda text: text.split(","))
    parser.add_argument("--ranks", default=[1, 2, 4], type=lambda text: [int(ranks) for ranks in text.split(",")])
    parser.add_argument("--steps", default=["prefill", "decode", "copy"], type=lambda text: text.split(","))
    parser.add_argument("--precisions", default=["bf16", "fp32"], type=lambda text: text.split(","))
    parser.add_argument("--free", default="with", choices=["with", "without"], help="whole programs")
    parser.add_argument("--lock-step", default="with", choices=["with", "without"], help="each instruction, in bf16")
    parser.add_argument("--all-layers", action="store_true", help="of 12b, 26b-a4b and 31b too, not one repetition")
    parser.add_argument("--broken", default="with", choices=["with", "without", "only"], help="programs with faults")
    judge = Judge(parser.parse_args())
    options = judge.options
    start = time.monotonic()
    if options.short:
        judge.model("12b", 2, "bf16", SHORT_STEPS)
        judge.broken("12b", 1, ["decode"], {"mask"})
        judge.all_planted({"mask"}, ["decode"])
    else:
        if options.broken != "without":
            kinds = ["prefill", "decode"]
            judge.broken("12b", 1, kinds, FAULTS)
            judge.broken("12b", 2, kinds, FAULTS)
            judge.all_planted(FAULTS, kinds)
        for model in options.models if options.broken != "only" else []:
            for ranks in options.ranks:
                unwritten = [] if ranks == 2 else SMALL_BUCKET_STEPS
                steps = [step.removesuffix(":write") if step in unwritten else step for step in STEPS]
                for precision in options.precisions:
                    judge.model(model, ranks, precision, steps)
    if judge.figures:
        judge.table()
    for fault in judge.faults:
        print(fault)
    print(f"{judge.programs} programs, {len(judge.faults)} disagreements, {time.monotonic() - start:.0f} s")
    sys.exit(1 if judge.faults else 0)


if __name__ == "__main__":
    main()
