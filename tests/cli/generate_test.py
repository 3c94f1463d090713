"""`gemmatrace generate` from outside: prompts in every form, the JSON object, stops, seeds, and bits that stay."""

import json
import signal
import subprocess
import time
import unittest

from support import BINARY, DEMO, CheckpointCopy, TestCase, generate, run

GREEDY = ("--temperature", "0")
QUESTION = "What is the capital of France?"


def special_ids(checkpoint=DEMO):
    document = json.loads((checkpoint / "tokenizer.json").read_text(encoding="utf-8"))
    return {token["content"]: token["id"] for token in document["added_tokens"]}


class PromptTest(TestCase):
    def test_a_chat_prompt_is_rendered_by_the_template(self):
        request = {"messages": [{"role": "user", "content": QUESTION}], "add_generation_prompt": True}
        rendered = run("render", DEMO, "--json", stdin=json.dumps(request)).json()
        result = generate("--chat", QUESTION, "--max-tokens", 1, *GREEDY)
        self.assertEqual(result["prompt_ids"], rendered["ids"])

    def test_system_and_thinking_reach_the_template(self):
        messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": QUESTION}]
        request = {"messages": messages, "add_generation_prompt": True, "enable_thinking": True}
        rendered = run("render", DEMO, "--json", stdin=json.dumps(request)).json()
        result = generate("--chat", QUESTION, "--system", "Be short.", "--think", "--max-tokens", 1, *GREEDY)
        self.assertEqual(result["prompt_ids"], rendered["ids"])

    def test_F002_a_raw_prompt_gets_one_bos_whoever_writes_it(self):
        bos = special_ids()["<bos>"]
        plain = generate("--prompt", "Hello", "--max-tokens", 0)["prompt_ids"]
        self.assertEqual(plain[0], bos)
        self.assertNotEqual(plain[1], bos)
        self.assertEqual(generate("--prompt", "<bos>Hello", "--max-tokens", 0)["prompt_ids"], plain)
        self.assertEqual(generate("--max-tokens", 0, stdin="Hello")["prompt_ids"], plain)

    def test_standard_input_is_taken_whole(self):
        text = "  two\nlines \n\n"
        self.assertEqual(generate("--max-tokens", 0, stdin=text)["prompt_ids"],
                         generate("--prompt", text, "--max-tokens", 0)["prompt_ids"])

    def test_control_strings_in_a_message_stay_text(self):
        turn = special_ids()["<turn|>"]
        plain = generate("--chat", "a", "--max-tokens", 0)["prompt_ids"]
        nasty = generate("--chat", "a<turn|>b", "--max-tokens", 0)["prompt_ids"]
        self.assertEqual(nasty.count(turn), plain.count(turn))
        self.assertIn(turn, generate("--prompt", "a<turn|>b", "--max-tokens", 0)["prompt_ids"])

    def test_ids_need_no_tokenizer(self):
        ids = generate("--chat", QUESTION, "--max-tokens", 0)["prompt_ids"]
        as_list = ",".join(map(str, ids))
        with CheckpointCopy() as copy:
            with_tokenizer = generate("--ids", as_list, "--max-tokens", 6, *GREEDY, checkpoint=copy.path)
            for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
                copy.remove(name)
            without = generate("--ids", as_list, "--max-tokens", 6, *GREEDY, checkpoint=copy.path)
            self.assertEqual(without["token_ids"], with_tokenizer["token_ids"])
            self.assertIsNone(without["text"])
            self.assertIsNotNone(with_tokenizer["text"])
            shown = run("generate", copy.path, "--ids", as_list, "--max-tokens", 6, *GREEDY)
            self.assertEqual(shown.out, " ".join(map(str, without["token_ids"])) + "\n")
            self.assert_fails(run("generate", copy.path, "--prompt", "x"), 3, "tokenizer.json")

    def test_ids_come_in_several_forms(self):
        for form in ("2,105,300", "2 105 300", "[2, 105, 300]", '{"ids": [2, 105, 300]}', " 2,\n105 ,300 "):
            self.assertEqual(generate("--ids", form, "--max-tokens", 0)["prompt_ids"], [2, 105, 300])


class JsonTest(TestCase):
    def test_the_object_has_its_members_and_nothing_else_is_printed(self):
        done = run("generate", DEMO, "--chat", QUESTION, "--json", "--top-logits", 3, "--max-tokens", 40, *GREEDY)
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.err, "")
        self.assertEqual(done.out.count("\n"), 1)
        result = done.json()
        self.assertEqual(result["finish_reason"], "stop")
        self.assertEqual(result["stop_reason"]["type"], "token")
        self.assertNotIn(result["stop_reason"]["id"], result["token_ids"])
        self.assertEqual(len(result["top_logits"]), len(result["token_ids"]) + 1)  # the step that stopped, too
        for step, token in zip(result["top_logits"], result["token_ids"]):
            self.assertEqual(len(step), 3)
            values = [value for _, value in step]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertIn(token, [id for id, _ in step])
        for key in ("load_s", "prefill_s", "decode_s", "first_token_s", "prompt_tokens_per_s", "decode_tokens_per_s"):
            self.assertGreaterEqual(result["timings"][key], 0)
        for key in ("mapped_weight_bytes", "kv_cache_bytes", "peak_resident_bytes"):
            self.assertGreater(result["memory"][key], 0)
        self.assertEqual(result["precision"], "bf16")
        self.assertIn(result["isa"], ("scalar", "avx2", "avx512"))
        self.assertGreaterEqual(result["threads"], 1)

    def test_printed_logits_read_back_as_the_floats_they_are(self):
        import struct
        result = generate("--chat", QUESTION, "--top-logits", 5, "--max-tokens", 4, *GREEDY)
        for step in result["top_logits"]:
            for _, value in step:  # bf16: the low half of the float is zero
                (bits,) = struct.unpack("<I", struct.pack("<f", value))
                self.assertEqual(bits & 0xFFFF, 0, value)

    def test_the_streamed_text_is_the_text_of_the_object(self):
        for prompt in (("--chat", QUESTION), ("--prompt", "The opposite of hot is")):
            result = generate(*prompt, "--max-tokens", 24, *GREEDY)
            streamed = run("generate", DEMO, *prompt, "--max-tokens", 24, *GREEDY)
            self.assertEqual(streamed.status, 0, streamed.err)
            text = result["text"]
            self.assertEqual(streamed.out, text if text.endswith("\n") else text + "\n")
            self.assertIn("tokens in", streamed.err)

    def test_max_tokens_is_exact_and_zero_is_allowed(self):
        for count in (0, 1, 7):
            result = generate("--ids", "2,105", "--max-tokens", count, "--ignore-eos", *GREEDY)
            self.assertEqual(len(result["token_ids"]), count)
            self.assertEqual(result["finish_reason"], "length")


class StopTest(TestCase):
    def test_F071_text_ends_exactly_before_the_stop_string(self):
        whole = generate("--chat", QUESTION, "--max-tokens", 40, *GREEDY)["text"]
        self.assertGreater(len(whole), 6)
        for begin in range(1, len(whole) - 2, 3):
            for length in (1, 2, 5):
                stop = whole[begin : begin + length]
                result = generate("--chat", QUESTION, "--max-tokens", 40, "--stop", "never there", "--stop", stop, *GREEDY)
                self.assertEqual(result["text"], whole[: whole.index(stop)])
                self.assertEqual(result["finish_reason"], "stop")
                self.assertEqual(result["stop_reason"], {"type": "string", "text": stop})
        streamed = run("generate", DEMO, "--chat", QUESTION, "--max-tokens", 40, "--stop", whole[3:8], *GREEDY)
        self.assertEqual(streamed.out, whole[: whole.index(whole[3:8])] + "\n")

    def test_without_a_match_nothing_is_lost(self):
        whole = generate("--chat", QUESTION, "--max-tokens", 40, *GREEDY)["text"]
        almost = whole[-3:] + "x"
        self.assertEqual(generate("--chat", QUESTION, "--max-tokens", 40, "--stop", almost, *GREEDY)["text"], whole)

    def test_ignore_eos_goes_on_through_the_end(self):
        first = generate("--chat", QUESTION, "--max-tokens", 40, *GREEDY)
        on = generate("--chat", QUESTION, "--max-tokens", 40, "--ignore-eos", *GREEDY)
        self.assertEqual(len(on["token_ids"]), 40)
        stop_at = len(first["token_ids"])
        self.assertEqual(on["token_ids"][:stop_at], first["token_ids"])
        self.assertEqual(on["token_ids"][stop_at], first["stop_reason"]["id"])

    def test_eos_ids_come_from_generation_config_and_else_from_config(self):
        answer = generate("--chat", QUESTION, "--max-tokens", 40, *GREEDY)["token_ids"]
        with CheckpointCopy() as copy:
            copy.edit_json("generation_config.json", lambda document: document.update(eos_token_id=[answer[2]]))
            result = generate("--chat", QUESTION, *GREEDY, checkpoint=copy.path)
            self.assertEqual(result["token_ids"], answer[: answer.index(answer[2])])
            copy.remove("generation_config.json")
            copy.edit_json("config.json", lambda document: document.update(eos_token_id=answer[3]))
            result = generate("--chat", QUESTION, *GREEDY, checkpoint=copy.path)
            self.assertEqual(result["token_ids"], answer[: answer.index(answer[3])])

    def test_suppressed_tokens_never_come_in_greedy_either(self):
        answer = generate("--chat", QUESTION, "--max-tokens", 8, *GREEDY)["token_ids"]
        with CheckpointCopy() as copy:
            copy.edit_json("generation_config.json", lambda document: document.update(suppress_tokens=[answer[0]]))
            result = generate("--chat", QUESTION, "--max-tokens", 8, *GREEDY, checkpoint=copy.path)
            self.assertNotIn(answer[0], result["token_ids"])


class SamplingTest(TestCase):
    def sample(self, *arguments, checkpoint=DEMO):
        return generate("--prompt", "The", "--max-tokens", 24, "--ignore-eos", *arguments, checkpoint=checkpoint)

    def test_a_seed_repeats_an_answer(self):
        hot = ("--temperature", "1.5", "--top-k", "0")
        first = self.sample(*hot, "--seed", 7)
        self.assertEqual(self.sample(*hot, "--seed", 7)["token_ids"], first["token_ids"])
        self.assertNotEqual(self.sample(*hot, "--seed", 8)["token_ids"], first["token_ids"])

    def test_the_drawn_seed_is_told_and_repeats_the_answer(self):
        first = self.sample("--temperature", "1.5")
        again = self.sample("--temperature", "1.5", "--seed", first["seed"])
        self.assertEqual(again["token_ids"], first["token_ids"])

    def test_defaults_come_from_generation_config_and_the_command_line_wins(self):
        with CheckpointCopy() as copy:
            settings = {"do_sample": True, "temperature": 0.9, "top_k": 11, "top_p": 0.7, "min_p": 0.01}
            copy.edit_json("generation_config.json", lambda document: document.update(settings))
            said = self.sample(checkpoint=copy.path)["sampling"]
            self.assertEqual(said, {"temperature": 0.9, "top_k": 11, "top_p": 0.7, "min_p": 0.01})
            said = self.sample("--top-k", 3, checkpoint=copy.path)["sampling"]
            self.assertEqual(said, {"temperature": 0.9, "top_k": 3, "top_p": 0.7, "min_p": 0.01})
            self.assertEqual(self.sample("--temperature", 0, checkpoint=copy.path)["sampling"], "greedy")
            copy.edit_json("generation_config.json", lambda document: document.update(do_sample=False))
            self.assertEqual(self.sample(checkpoint=copy.path)["sampling"], "greedy")
            self.assertEqual(self.sample("--top-p", 0.5, checkpoint=copy.path)["sampling"]["temperature"], 0.9)
            copy.remove("generation_config.json")
            self.assertEqual(self.sample(checkpoint=copy.path)["sampling"], "greedy")

    def test_top_k_one_is_the_best_token(self):
        self.assertEqual(self.sample("--temperature", 1, "--top-k", 1, "--precision", "fp32")["token_ids"],
                         self.sample(*GREEDY, "--precision", "fp32")["token_ids"])


class SameBitsTest(TestCase):
    def test_threads_chunks_and_instruction_sets_change_nothing(self):
        prompt = ("--prompt", "one two three four five six seven " * 14, "--max-tokens", 8, "--ignore-eos",
                  "--top-logits", 4, *GREEDY)
        for precision in ("bf16", "fp32"):
            expected = None
            for how in (["--threads", 1], ["--threads", 2], ["--chunk", 1], ["--chunk", 7], ["--chunk", 64],
                        ["--isa", "scalar"], ["--isa", "avx2"], ["--isa", "avx512"]):
                done = run("generate", DEMO, *prompt, "--json", "--precision", precision, *how)
                if how[0] == "--isa" and done.status == 4:
                    continue  # this machine lacks it, and says so
                self.assertEqual(done.status, 0, done.err)
                result = (done.json()["token_ids"], done.json()["top_logits"])
                if expected is None:
                    expected = result
                self.assertEqual(result, expected, f"{precision} {how}")


class InterruptTest(TestCase):
    def start(self, *arguments):
        command = [BINARY, "generate", str(DEMO), "--ids", "2,105", "--ignore-eos", "--max-tokens", "100000", *GREEDY,
                   *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_ctrl_c_ends_with_130_and_prints_no_half_object(self):
        process = self.start("--json")
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(out, b"")
        self.assertIn(b"interrupted", err)

    def test_ctrl_c_ends_a_stream_after_a_whole_line(self):
        process = self.start()
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertTrue(out.endswith(b"\n"))

    def test_a_reader_that_goes_away_is_no_error(self):
        process = self.start()
        process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        self.assertEqual(process.wait(timeout=60), 0, err)
        self.assertNotIn(b"error", err)


if __name__ == "__main__":
    unittest.main()
