"""XLA's CPU compiler and our evaluator agree on the toy programs, instruction by instruction, and both see the faults.

Usage: judge_test.py HLO_VALUES, in the environment of tools/judge/requirements.lock.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import judge_hlo  # noqa: E402
import numpy as np  # noqa: E402

TOOL = sys.argv.pop(1)


class Judge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.toys = Path(cls.folder.name)
        subprocess.run([TOOL, "toys", cls.toys], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def outputs(self, name):
        """Results by our evaluator and by the judge, {name: [rank]}, the program running freely."""
        toy = self.toys / name
        ranks = int((toy / "ranks").read_text())
        program = judge_hlo.Program((toy / "module.hlo.pb").read_bytes())
        subprocess.run([TOOL, "run", toy / "module.hlo.pb", str(ranks), toy / "in", toy / "ours"], check=True)
        theirs = judge_hlo.execute(program.data, judge_hlo.read_arguments(program, toy / "in", ranks), ranks)
        ours = {}
        for output, instruction in program.outputs():
            ours[output] = [instruction.array(judge_hlo.value_file(toy / "ours", rank, output).read_bytes())
                            for rank in range(ranks)]
        return ours, dict(zip(ours, theirs))

    def test_every_instruction_of_every_toy_agrees_in_lock_step(self):
        for name in ("elementwise", "movement1", "movement2", "movement4", "decode1", "decode2", "decode4"):
            with self.subTest(name):
                ranks = int((self.toys / name / "ranks").read_text())
                comparison = judge_hlo.compare(self.toys / name / "module.hlo.pb", ranks, self.toys / name / "in", TOOL)
                print(name, comparison.words())
                self.assertEqual([(i.name, i.opcode, rank, n, worst) for i, rank, n, worst in comparison.found], [])

    def test_results_agree_when_running_freely_and_caches_are_equal(self):
        for name in ("movement2", "decode1", "decode2", "decode4"):
            ours, theirs = self.outputs(name)
            for output in ours:
                for mine, other in zip(ours[output], theirs[output]):
                    if name == "movement2" or output not in ("logits", "best"):
                        close = np.allclose(mine.astype(np.float64), other.astype(np.float64), rtol=1e-5, atol=1e-5)
                    else:  # one flipped bf16 rounding moves a logit
                        close = np.allclose(mine, other, rtol=0, atol=0.05)
                    self.assertTrue(close, f"{name} {output}")

    def test_a_broken_program_differs_from_the_right_one_for_both(self):
        right_ours, right_theirs = self.outputs("decode2")
        for fault in ("mask", "sum", "rotation", "operands"):
            with self.subTest(fault):
                ours, theirs = self.outputs(f"broken-decode2-{fault}")
                for right, broken in ((right_ours, ours), (right_theirs, theirs)):
                    pairs = [pair for output in ("kv.k", "logits") for pair in zip(right[output], broken[output])]
                    is_seen = not all(np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=0, atol=0.05)
                                      for a, b in pairs)  # a NaN is seen too
                    self.assertTrue(is_seen)

    def test_a_wrong_value_is_found_in_its_instruction(self):
        toy = self.toys / "decode2"
        program = judge_hlo.Program((toy / "module.hlo.pb").read_bytes())
        arguments = judge_hlo.read_arguments(program, toy / "in", 2)
        theirs = judge_hlo.judge_values(program, arguments, 2)
        with tempfile.TemporaryDirectory() as folder:
            ours = judge_hlo.recomputed(toy / "module.hlo.pb", program, arguments, theirs, 2, TOOL, folder)
        in_bf16 = [i.name for i in program.computed() if i.opcode == "dot" and i.type == 11]
        self.assertGreater(len(in_bf16), 5)
        for wanted in ("stream", "scores", "qkv", "logits", *in_bf16):
            place = next(n for n, i in enumerate(program.computed()) if i.name == wanted)
            wrong = list(ours)
            value = wrong[place][1].copy()
            if wanted in in_bf16:  # the sum was rounded once too often
                value = value.astype(judge_hlo.ml_dtypes.bfloat16).astype(np.float32)
            else:
                value.reshape(-1)[0] += 1
            wrong[place] = [ours[place][0], value]
            found = judge_hlo.compared(program, arguments, theirs, wrong, 2).found
            self.assertEqual([(i.name, rank) for i, rank, _, _ in found], [(wanted, 1)])

    def test_xla_reads_our_proto_and_our_text_as_the_same_program(self):
        for name in ("elementwise", "movement2", "decode2"):
            path = self.toys / name / "module.hlo.pb"
            text = subprocess.run([TOOL, "text", path], check=True, capture_output=True, text=True).stdout
            parsed = judge_hlo._hlo.hlo_module_from_text(text)
            from_proto = judge_hlo._hlo.HloModule.from_serialized_hlo_module_proto(path.read_bytes())
            self.assertEqual(parsed.to_string(), from_proto.to_string())


unittest.main(verbosity=2)
