"""Bad input from outside: damaged files, contradictions and impossible requests each end in one clear sentence with the
file or field, a remedy and the exit status of its kind; nothing crashes and no partial output looks whole."""

import json
import os
import struct
import unittest

from support import DEMO, CheckpointCopy, TestCase, join_safetensors, run, split_safetensors

IDS = ("--ids", "2,105", "--max-tokens", "1", "--temperature", "0", "--json")
WEIGHTS = "model.safetensors"


def first_tensor(header, part):
    return next(name for name in header if part in name)


class WeightsTest(TestCase):
    def assert_refused(self, copy, *said, status=5):
        for command in (("generate", copy.path, *IDS), ("inspect", copy.path, "--json")):
            self.assert_fails(run(*command), status, *said)

    def test_a_file_cut_at_any_byte_is_corrupt(self):
        with CheckpointCopy() as copy:
            whole = copy.read(WEIGHTS)
            (header,) = struct.unpack("<Q", whole[:8])
            for size in (0, 1, 7, 8, 9, 8 + header // 2, 8 + header - 1, 8 + header, 8 + header + 1, len(whole) // 2,
                         len(whole) - 1):
                copy.write(WEIGHTS, whole[:size])
                self.assert_refused(copy, WEIGHTS)
            copy.write(WEIGHTS, whole + b"\0")
            self.assert_refused(copy, WEIGHTS)

    def test_a_header_of_100_gigabytes_is_corrupt(self):
        with CheckpointCopy() as copy:
            copy.write(WEIGHTS, struct.pack("<Q", 100 << 30) + copy.read(WEIGHTS)[8:])
            self.assert_refused(copy, WEIGHTS)

    def test_lying_offsets_are_corrupt(self):
        def overlap(header):
            name, other = [name for name in header if "q_proj" in name][:2]
            header[name]["data_offsets"] = header[other]["data_offsets"]

        def beyond_the_end(header):
            header[first_tensor(header, "q_proj")]["data_offsets"][1] += 1 << 40

        def overflow(header):
            header[first_tensor(header, "q_proj")]["data_offsets"] = [2**64 - 2, 2**64]

        def backwards(header):
            header[first_tensor(header, "q_proj")]["data_offsets"].reverse()

        def huge_shape(header):
            header[first_tensor(header, "q_proj")]["shape"] = [1 << 40, 1 << 40]

        def negative_shape(header):
            header[first_tensor(header, "q_proj")]["shape"][0] *= -1

        for lie in (overlap, beyond_the_end, overflow, backwards, huge_shape, negative_shape):
            with self.subTest(lie.__name__), CheckpointCopy() as copy:
                copy.edit_header(lie)
                self.assert_refused(copy, WEIGHTS)

    def test_an_unknown_or_integer_type_is_refused(self):
        for dtype, said in (("BF17", "unknown dtype"), ("I16", "I16")):
            with self.subTest(dtype), CheckpointCopy() as copy:
                copy.edit_header(lambda header: header[first_tensor(header, "q_proj")].update(dtype=dtype))
                self.assert_refused(copy, said)

    def test_F007_a_missing_tensor_is_named_never_defaulted(self):
        for part in ("layer_scalar", "q_norm", "down_proj", "norm.weight"):
            with self.subTest(part), CheckpointCopy() as copy:
                header, data = split_safetensors(copy.read(WEIGHTS))
                name = first_tensor(header, part)
                header[name.replace(part, "renamed")] = header.pop(name)
                copy.write(WEIGHTS, join_safetensors(header, data))
                self.assert_refused(copy, part)

    def test_a_tensor_nobody_reads_is_named(self):
        with CheckpointCopy() as copy:
            header, data = split_safetensors(copy.read(WEIGHTS))
            prefix = first_tensor(header, "layers.0.").split("layers.0.")[0]
            header[prefix + "layers.0.surprise"] = {"dtype": "BF16", "shape": [1],
                                                    "data_offsets": [len(data), len(data) + 2]}
            copy.write(WEIGHTS, join_safetensors(header, data + b"\0\0"))
            self.assert_refused(copy, "surprise")

    def test_missing_weights_and_shards_are_named(self):
        with CheckpointCopy() as copy:
            whole = copy.read(WEIGHTS)
            header, _ = split_safetensors(whole)
            copy.remove(WEIGHTS)
            self.assert_refused(copy, WEIGHTS, status=3)
            index = {"weight_map": {name: "model-00001-of-00002.safetensors" for name in header if name != "__metadata__"}}
            index["weight_map"]["model.language_model.elsewhere"] = "model-00002-of-00002.safetensors"
            copy.write("model.safetensors.index.json", json.dumps(index))
            copy.write("model-00001-of-00002.safetensors", whole)
            self.assert_refused(copy, "model-00002-of-00002.safetensors", status=3)


class ConfigTest(TestCase):
    def assert_refused(self, copy, status, *said):
        self.assert_fails(run("generate", copy.path, *IDS), status, *said)
        self.assert_fails(run("inspect", copy.path), status, *said)

    def test_a_config_that_contradicts_the_tensors_is_a_mismatch(self):
        for field, change in (("hidden_size", 64), ("vocab_size", -1), ("intermediate_size", 64), ("head_dim", 32)):
            with self.subTest(field), CheckpointCopy() as copy:
                def contradict(document):
                    text = document.get("text_config", document)
                    text[field] += change
                copy.edit_json("config.json", contradict)
                done = run("generate", copy.path, *IDS)
                self.assert_fails(done, 5, WEIGHTS if WEIGHTS in done.err else "tensor")

    def test_a_broken_or_missing_config_is_named(self):
        with CheckpointCopy() as copy:
            for text in ("", "{", "[]", "null", '{"model_type": 7}'):
                copy.write("config.json", text)
                self.assert_refused(copy, 5, "config.json")
            copy.remove("config.json")
            self.assert_refused(copy, 3, "config.json")

    def test_another_model_is_unsupported(self):
        with CheckpointCopy() as copy:
            copy.edit_json("config.json", lambda document: document.update(model_type="llama"))
            self.assert_refused(copy, 4, "llama")

    def test_generation_config_is_checked(self):
        with CheckpointCopy() as copy:
            copy.edit_json("generation_config.json", lambda document: document.update(eos_token_id=[10**6]))
            self.assert_fails(run("generate", copy.path, *IDS), 5, "generation_config.json", "eos_token_id")
            copy.write("generation_config.json", "{")
            self.assert_fails(run("generate", copy.path, *IDS), 5, "generation_config.json")


class TokenizerAndTemplateTest(TestCase):
    def test_F001_a_tokenizer_that_is_absent_empty_or_broken_is_refused(self):
        commands = (("tokenize",), ("generate", "--prompt", "x", "--max-tokens", "1"), ("chat", "--once", "x"))
        with CheckpointCopy() as copy:
            for text in ("", "{", "{}", "[]", '{"model": {"type": "BPE", "vocab": {}, "merges": []}}'):
                copy.write("tokenizer.json", text)
                for command, *rest in commands:
                    done = run(command, copy.path, *rest, stdin="x")
                    self.assertIn(done.status, (4, 5), done.err)
                    self.assert_fails(done, done.status, "tokenizer.json")
            copy.remove("tokenizer.json")
            for command, *rest in commands:
                self.assert_fails(run(command, copy.path, *rest, stdin="x"), 3, "tokenizer.json")

    def test_a_part_of_the_tokenizer_that_is_not_understood_is_unsupported(self):
        for part, value in (("normalizer", {"type": "Mystery"}), ("decoder", {"type": "Mystery"}),
                            ("pre_tokenizer", {"type": "Mystery"})):
            with self.subTest(part), CheckpointCopy() as copy:
                copy.edit_json("tokenizer.json", lambda document: document.update({part: value}))
                self.assert_fails(run("tokenize", copy.path, stdin="x"), 4, "Mystery")

    def test_a_tokenizer_with_more_ids_than_the_model_is_a_mismatch(self):
        def add(document):
            document["added_tokens"].append({"id": 10**6, "content": "<extra>", "single_word": False, "lstrip": False,
                                             "rstrip": False, "normalized": False, "special": True})
        with CheckpointCopy() as copy:
            copy.edit_json("tokenizer.json", add)
            done = run("generate", copy.path, "--prompt", "x", "--max-tokens", "1")
            self.assertNotEqual(done.status, 0)
            self.assert_fails(done, done.status, "tokenizer")

    def test_a_template_that_is_missing_broken_raises_or_loops_is_an_error(self):
        request = json.dumps({"messages": [{"role": "user", "content": "x"}]})
        raising = "{{ raise_exception('only whole sentences') }}"
        looping = "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}x{% endfor %}" \
                  "{% endfor %}{% endfor %}"
        recursive = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"
        with CheckpointCopy() as copy:
            patient = () if "GEMMATRACE_SANITIZED" in os.environ else ((looping, 2, ""),)
            for source, status, said in (*patient, (raising, 2, "only whole sentences"), (recursive, 2, ""),
                                         ("{% if %}", 5, "chat_template"), ("{{ messages[0].x.y.z() }}", 2, "line")):
                with self.subTest(source[:30]):
                    copy.write("chat_template.jinja", source)
                    self.assert_fails(run("render", copy.path, stdin=request), status, said)
                    self.assert_fails(run("chat", copy.path, "--once", "x"), status, said)
                    self.assert_fails(run("generate", copy.path, "--chat", "x"), status, said)
            copy.remove("chat_template.jinja")
            self.assert_fails(run("render", copy.path, stdin=request), 3, "chat_template")


class RequestTest(TestCase):
    def test_ids_out_of_range_are_named(self):
        for ids in ("2,1000000", "2,-1", "2,x", "2,,3x"):
            self.assert_fails(run("generate", DEMO, "--ids", ids, "--json"), 2)
        self.assert_fails(run("generate", DEMO, "--ids", "2,1000000"), 2, "1000000")
        self.assert_fails(run("generate", DEMO, "--ids", ""), 2, "empty")

    def test_F005_a_prompt_that_is_too_long_is_refused_with_both_numbers(self):
        with CheckpointCopy() as copy:
            def shorten(document):
                document.get("text_config", document)["max_position_embeddings"] = 64
            copy.edit_json("config.json", shorten)
            fits = ",".join(["2"] * 60)
            self.assertEqual(run("generate", copy.path, "--ids", fits, "--max-tokens", "4", "--ignore-eos").status, 0)
            self.assert_fails(run("generate", copy.path, "--ids", fits, "--max-tokens", "5"), 2, "60", "64", "too_long")
            self.assert_fails(run("generate", copy.path, "--ids", ",".join(["2"] * 65)), 2, "65", "64")
            self.assert_fails(run("generate", copy.path, "--ids", ",".join(["2"] * 64)), 2, "64")
            done = run("generate", copy.path, "--ids", fits, "--ignore-eos", "--json")
            self.assertEqual(len(done.json()["token_ids"]), 4)  # the default asks for what is left
            long_text = "word " * 200
            self.assert_fails(run("generate", copy.path, "--chat", long_text), 2, "64")
            self.assert_fails(run("chat", copy.path, "--once", long_text), 2, "64")

    def test_values_out_of_range_are_refused_by_name(self):
        for arguments in (("--temperature", "-1"), ("--temperature", "nan"), ("--top-k", "-3"), ("--top-p", "1.5"),
                          ("--min-p", "2"), ("--max-tokens", "-1"), ("--threads", "-1"), ("--threads", "100000"),
                          ("--chunk", "0"), ("--precision", "fp8"), ("--isa", "mmx"), ("--top-logits", "-2"),
                          ("--seed", "-1"), ("--max-tokens", "many")):
            with self.subTest(arguments):
                done = run("generate", DEMO, "--ids", "2", "--json", *arguments)
                self.assert_fails(done, 2)

    def test_prompts_exclude_each_other(self):
        self.assert_fails(run("generate", DEMO, "--ids", "2", "--prompt", "x"), 2)
        self.assert_fails(run("generate", DEMO, "--ids", "2", "--system", "x"), 2)
        self.assert_fails(run("generate", DEMO, stdin=""), 2, "empty")

    def test_command_lines_that_make_no_sense_end_with_2_and_point_to_the_help(self):
        for arguments in ((), ("dance",), ("generate",), ("generate", DEMO, "--no-such-option"), ("synth", "out"),
                          ("completion", "tcsh")):
            done = run(*arguments)
            self.assert_fails(done, 2, "remedy")

    def test_a_checkpoint_that_is_not_there_is_not_found(self):
        for command in ("generate", "chat", "tokenize", "detokenize", "render", "inspect"):
            self.assert_fails(run(command, "no/such/place", stdin="x"), 3, "no/such/place")
            self.assert_fails(run(command, DEMO / "config.json", stdin="x"), 3, "config.json")


if __name__ == "__main__":
    unittest.main()
