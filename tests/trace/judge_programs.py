"""XLA's CPU compiler and our evaluator agree on the programs of the bundled checkpoints, and both see planted faults.

Usage: judge_programs.py PROGRAM_VALUES HLO_VALUES [--short | options that choose]
in the environment of tools/judge/requirements.lock. Prints a line for each program; status 1: something disagrees.

Each program is judged in two ways. Free: it runs from its inputs to its results, with caches written in place, once by
our evaluator and once by XLA; then logits, best values and caches are close, and each side's choice is the greedy one
of its own logits. Lock step: each instruction alone, on XLA's operands, within the bounds of tools/judge_hlo.py.
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
SLOTS, CHUNK, CONTEXT = 3, 16, 128
# Past the window of 64 and the ring of 80 rows; the last chunk is cut short; slot 1 pauses in the decode.
STEPS = ["prefill:1:20", "prefill:0:100:write", "copy:0:2:98:write", "decode:2,1", "decode:0,2:write"]
BROKEN_STEPS = ["prefill:1:20", "prefill:0:100:break", "decode:0,1:break"]
FAULTS = {"operands", "window", "mask", "groups", "rank"}
# Apart by how much of the largest value: the order of sums; in bf16 also the roundings that it flips.
FREE_BOUND = {"fp32": 3e-5, "bf16": 0.06}


def soft_cap(model):
    config = json.loads((ROOT / "models" / model / "config.json").read_text())
    return config.get("text_config", config).get("final_logit_softcapping")


def decided(logits, precision, cap):
    """What the decision compares: in bf16 the capped logits, rounded after division, tanh and product."""
    if precision == "fp32" or not cap:
        return logits
    bf16 = ml_dtypes.bfloat16
    ratio = (logits / np.float32(cap)).astype(bf16)
    bent = np.tanh(ratio.astype(np.float64)).astype(np.float32).astype(bf16)
    return (bent.astype(np.float32) * np.float32(cap)).astype(bf16).astype(np.float32)


def with_layers(checkpoint, folder, count):
    """The checkpoint, of one file, as if it ended after its first layers."""
    folder.mkdir()
    config = json.loads((checkpoint / "config.json").read_text())
    text = config.get("text_config", config)
    text["num_hidden_layers"] = count
    text["layer_types"] = text["layer_types"][:count]
    (folder / "config.json").write_text(json.dumps(config))
    data = (checkpoint / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors, kept = {}, b""
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

    def __init__(self, folder, ranks, hlo_values):
        self.folder, self.ranks, self.hlo_values = folder, ranks, hlo_values
        self.path = folder / "module.hlo.pb"
        self.kind = folder.name.split("-")[1]

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
        """{fault: (by our evaluator, by XLA)} of the programs with a fault, given the same inputs."""
        found = {}
        for path in sorted(self.folder.glob("broken-*.hlo.pb")):
            fault = path.name.split(".")[0].split("-")[1]
            if fault not in faults:
                continue
            out = self.folder / f"ours-{fault}"
            subprocess.run([self.hlo_values, "run", path, str(self.ranks), self.folder / "in", out], check=True)
            found[fault] = self.results(judge_hlo.Program(path.read_bytes()), out), self.theirs(path)
        return found


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


def greedy_faults(ours, theirs, precision, cap):
    """The id over all ranks may be another one only where the logits' differences explain it."""
    mine, other = (np.concatenate([np.asarray(shard) for shard in side["logits"]], axis=1) for side in (ours, theirs))
    faults, different = [], 0
    for row in range(mine.shape[0]):
        values = decided(mine[row], precision, cap)
        chosen, theirs_chose = int(np.argmax(values)), int(np.argmax(decided(other[row], precision, cap)))
        if chosen == theirs_chose:
            continue
        different += 1
        rounding = 0.0 if precision == "fp32" else 2.0 ** -7 * abs(values[chosen])
        if values[chosen] - values[theirs_chose] > 2 * np.max(np.abs(mine[row] - other[row])) + rounding:
            faults.append(f"row {row}: id {chosen} by our evaluator, {theirs_chose} by XLA, and no near tie")
    return faults, different


def free_faults(execution, precision, cap):
    """Disagreements of the whole program; and in words how far the results are apart."""
    ours, theirs = execution.ours(), execution.theirs(execution.path)
    apart = distances(ours, theirs)
    faults = [f"{name} is {far:.2g} of its largest value apart" for name, far in apart.items()
              if not far <= FREE_BOUND[precision]]
    caches = max(far for name, far in apart.items() if "." in name)
    if execution.kind == "copy":
        faults += [f"{name} is another one" for name, far in apart.items() if far != 0]
        return faults, f"caches {caches:.1g}"
    for side, results in (("our evaluator", ours), ("XLA", theirs)):
        faults += [f"{side}: {fault}" for fault in choice_faults(results, precision, cap)]
    greedy, different = greedy_faults(ours, theirs, precision, cap)
    return faults + greedy, f"logits {apart['logits']:.1g} caches {caches:.1g} other ids {different}"


def lock_step_faults(execution):
    found, differing, count = judge_hlo.compare(execution.path, execution.ranks, execution.folder / "in",
                                                execution.hlo_values)
    inexact = {opcode: number for opcode, number in differing.items() if number}
    faults = [f"{i.name} {i.opcode} on rank {rank}: {elements} elements out of bounds, worst {worst}"
              for i, rank, elements, worst in found]
    return faults, f"{count} instructions, {len(found)} out of bounds, not bit-equal {inexact}"


class Judge:
    def __init__(self, options):
        self.options = options
        self.faults, self.programs, self.seen_faults = [], 0, set()

    def report(self, title, faults, words, since):
        verdict = "DISAGREES" if faults else "agrees"
        print(f"{title:32} {verdict}  {words}  {time.monotonic() - since:.1f} s", flush=True)
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
                        str(CHUNK), str(CONTEXT), *steps], check=True)
        return [Execution(path, ranks, self.options.hlo_values) for path in sorted((folder / "written").iterdir())]

    def model(self, model, ranks, precision, is_lock_step, layers=None):
        with tempfile.TemporaryDirectory() as folder:
            for execution in self.written(folder, model, ranks, precision, STEPS, layers):
                if execution.kind not in self.options.steps:
                    continue
                self.programs += 1
                title = f"{model} tp{ranks} {precision} {execution.kind}"
                start = time.monotonic()
                self.report(f"{title} free", *free_faults(execution, precision, soft_cap(model)), start)
                start = time.monotonic()
                if is_lock_step:
                    self.report(f"{title} lock step", *lock_step_faults(execution), start)

    def broken(self, model, ranks, kinds, only=FAULTS):
        """In fp32, so that a small fault is no rounding; the first three layers, of both kinds."""
        with tempfile.TemporaryDirectory() as folder:
            for execution in self.written(folder, model, ranks, "fp32", BROKEN_STEPS, layers=3):
                if execution.kind not in kinds:
                    continue
                right = execution.ours(), execution.theirs(execution.path)
                for fault, sides in execution.broken(only).items():
                    start = time.monotonic()
                    far = [max(distance(a[name], b[name]) for name in a) for a, b in zip(right, sides)]
                    apart = max(distances(*sides).values())
                    faults = [f"{side} does not see it" for side, share in zip(("our evaluator", "XLA"), far)
                              if not share > 3e-4]
                    if apart > FREE_BOUND["fp32"]:
                        faults.append(f"the broken program's results are {apart:.2g} apart")
                    self.seen_faults.add(fault)
                    self.report(f"{model} tp{ranks} {execution.kind} broken {fault}", faults,
                                f"ours {far[0]:.2g} XLA {far[1]:.2g} from the right one", start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program_values")
    parser.add_argument("hlo_values")
    parser.add_argument("--short", action="store_true", help="a subset, for the suite")
    parser.add_argument("--models", default=MODELS, type=lambda text: text.split(","))
    parser.add_argument("--ranks", default=[1, 2, 4], type=lambda text: [int(ranks) for ranks in text.split(",")])
    parser.add_argument("--steps", default=["prefill", "decode", "copy"], type=lambda text: text.split(","))
    parser.add_argument("--precisions", default=["bf16", "fp32"], type=lambda text: text.split(","))
    parser.add_argument("--lock-step", default=[2], type=lambda text: [int(ranks) for ranks in text.split(",")],
                        help="at which of the ranks bf16 programs are judged in lock step too, which is slow; 2")
    parser.add_argument("--broken", default="with", choices=["with", "without", "only"], help="programs with faults")
    judge = Judge(parser.parse_args())
    options = judge.options
    start = time.monotonic()
    if options.short:
        options.steps = ["decode", "copy"]
        judge.model("12b", 2, "bf16", True, layers=3)
        judge.broken("12b", 1, ["decode"])
        judge.broken("12b", 2, ["decode"], only={"rank"})
    else:
        if options.broken != "without":
            for ranks in (1, 2):
                judge.broken("12b", ranks, ["prefill", "decode"])
        for model in options.models if options.broken != "only" else []:
            for ranks in options.ranks:
                for precision in options.precisions:
                    is_lock_step = precision == "bf16" and ranks in options.lock_step
                    judge.model(model, ranks, precision, is_lock_step)
    if options.short or options.broken != "without":
        judge.faults += [f"the fault {fault} was never planted" for fault in sorted(FAULTS - judge.seen_faults)]
    print(f"{judge.programs} programs, {len(judge.faults)} disagreements, {time.monotonic() - start:.0f} s")
    sys.exit(1 if judge.faults else 0)


if __name__ == "__main__":
    main()
