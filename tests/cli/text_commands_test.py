"""`tokenize`, `detokenize` and `render` from outside: bytes in, bytes out, batches, and what they refuse."""

import json
import unittest

from support import DEMO, CheckpointCopy, TestCase, run

TEXTS = ["", "Hello, world", " leading and trailing ", "\n\n\nlines\n", "tab\tand  spaces   here", "naïve café ☃ 🦀",
         "日本語のテキスト", "<turn|> and <|turn>", "\u0000 zero", "<bos>", "a" * 3000]


class TokenizeTest(TestCase):
    def test_text_comes_back_byte_for_byte(self):
        for text in TEXTS:
            ids = run("tokenize", DEMO, stdin=text)
            self.assertEqual(ids.status, 0, ids.err)
            back = run("detokenize", DEMO, stdin=ids.out_bytes)
            self.assertEqual(back.out_bytes, text.encode(), text[:40])

    def test_json_names_every_token(self):
        result = run("tokenize", DEMO, "--json", stdin="Hello <turn|>").json()
        self.assertEqual(len(result["ids"]), len(result["tokens"]))
        self.assertEqual(result["tokens"][-1], "<turn|>")
        plain = run("tokenize", DEMO, stdin="Hello <turn|>").out
        self.assertEqual([int(id) for id in plain.split()], result["ids"])

    def test_plain_keeps_control_strings_as_text(self):
        result = run("tokenize", DEMO, "--json", "--plain", stdin="Hello <turn|>").json()
        self.assertNotIn("<turn|>", result["tokens"])
        self.assertEqual(run("detokenize", DEMO, stdin=json.dumps(result["ids"])).out, "Hello <turn|>")

    def test_bos_is_added_only_when_asked_for(self):
        without = run("tokenize", DEMO, "--json", stdin="x").json()["ids"]
        with_bos = run("tokenize", DEMO, "--json", "--bos", stdin="x").json()
        self.assertEqual(with_bos["ids"][1:], without)
        self.assertEqual(with_bos["tokens"][0], "<bos>")

    def test_bytes_that_are_no_utf8_count_as_replacement_characters(self):
        ids = run("tokenize", DEMO, stdin=b"a\xff\xfeb").out_bytes
        self.assertEqual(run("detokenize", DEMO, stdin=ids).out, "a\ufffd\ufffdb")

    def test_a_batch_equals_single_runs(self):
        lines = "".join(json.dumps(text) + "\n" for text in TEXTS)
        batch = run("tokenize", DEMO, "--json", "--lines", stdin=lines)
        answers = [json.loads(line) for line in batch.out.splitlines()]
        self.assertEqual(answers, [run("tokenize", DEMO, "--json", stdin=text).json() for text in TEXTS])
        ids = "".join(json.dumps(answer["ids"]) + "\n" for answer in answers)
        back = run("detokenize", DEMO, "--json", "--lines", stdin=ids)
        self.assertEqual([json.loads(line)["text"] for line in back.out.splitlines()], TEXTS)

    def test_a_bad_line_does_not_spoil_a_batch(self):
        done = run("tokenize", DEMO, "--json", "--lines", stdin='"a"\n7\n{"\n"b"')
        answers = [json.loads(line) for line in done.out.splitlines()]
        self.assertEqual(["error" in answer for answer in answers], [False, True, True, False])
        self.assertEqual(answers[1]["error"]["code"], "bad_request")


class DetokenizeTest(TestCase):
    def test_ids_in_every_form_and_exact_bytes_out(self):
        ids = run("tokenize", DEMO, "--json", stdin="Hello, world").json()["ids"]
        spaced = " ".join(map(str, ids))
        for form in (spaced, spaced.replace(" ", ","), spaced.replace(" ", "\n"), json.dumps(ids),
                     json.dumps({"ids": ids, "tokens": []})):
            self.assertEqual(run("detokenize", DEMO, stdin=form).out_bytes, b"Hello, world")
        self.assertEqual(run("detokenize", DEMO, "--json", stdin=spaced).json(), {"text": "Hello, world"})
        self.assertEqual(run("detokenize", DEMO, stdin="").out_bytes, b"")

    def test_control_tokens_are_text_unless_skipped(self):
        ids = run("tokenize", DEMO, stdin="<bos>Hi<turn|>").out
        self.assertEqual(run("detokenize", DEMO, stdin=ids).out, "<bos>Hi<turn|>")
        self.assertEqual(run("detokenize", DEMO, "--skip-special", stdin=ids).out, "Hi")

    def test_what_is_no_id_is_refused_by_name(self):
        self.assert_fails(run("detokenize", DEMO, stdin="1 two 3"), 2, "'two'")
        self.assert_fails(run("detokenize", DEMO, stdin="[1, 2.5]"), 2, "2.5")
        self.assert_fails(run("detokenize", DEMO, stdin="-1"), 2, "-1")
        self.assert_fails(run("detokenize", DEMO, stdin="[1, 2"), 2, "standard input")
        self.assert_fails(run("detokenize", DEMO, stdin='{"id": [1]}'), 2, "ids")
        self.assert_fails(run("detokenize", DEMO, stdin="99999999"), 2, "99999999")
        self.assert_fails(run("detokenize", DEMO, stdin="99999999999999"), 2, "99999999999999")


class RenderTest(TestCase):
    REQUEST = {"messages": [{"role": "user", "content": "Hi <turn|> there"}], "add_generation_prompt": True}

    def test_text_and_ids_belong_together(self):
        text = run("render", DEMO, stdin=json.dumps(self.REQUEST))
        both = run("render", DEMO, "--json", stdin=json.dumps(self.REQUEST)).json()
        self.assertEqual(text.out, both["text"])
        self.assertEqual(run("detokenize", DEMO, stdin=json.dumps(both["ids"])).out, both["text"])

    def test_control_strings_in_content_become_tokens_only_on_request(self):
        kept = run("render", DEMO, "--json", stdin=json.dumps(self.REQUEST)).json()
        free = run("render", DEMO, "--json", "--control-in-content", stdin=json.dumps(self.REQUEST)).json()
        self.assertEqual(kept["text"], free["text"])
        self.assertEqual(free["ids"], run("tokenize", DEMO, "--json", stdin=free["text"]).json()["ids"])
        self.assertNotEqual(kept["ids"], free["ids"])

    def test_a_batch_answers_line_by_line(self):
        lines = json.dumps(self.REQUEST) + "\n[]\n" + json.dumps(self.REQUEST) + "\n"
        answers = [json.loads(line) for line in run("render", DEMO, "--lines", stdin=lines).out.splitlines()]
        self.assertEqual(answers[0], answers[2])
        self.assertEqual(answers[1]["error"]["code"], "bad_request")
        answers = [json.loads(line) for line in run("render", DEMO, "--lines", "--json", stdin=lines).out.splitlines()]
        self.assertIn("ids", answers[0])

    def test_text_needs_no_tokenizer_but_ids_do(self):
        with CheckpointCopy() as copy:
            copy.remove("tokenizer.json")
            self.assertEqual(run("render", copy.path, stdin=json.dumps(self.REQUEST)).status, 0)
            self.assert_fails(run("render", copy.path, "--json", stdin=json.dumps(self.REQUEST)), 3, "tokenizer.json")

    def test_requests_that_are_no_conversation_are_refused(self):
        for request in ("", "{", "[]", "{}", '{"messages": "hi"}', '{"messages": {}}'):
            self.assert_fails(run("render", DEMO, stdin=request), 2)


if __name__ == "__main__":
    unittest.main()
