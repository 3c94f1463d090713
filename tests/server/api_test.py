"""What the routes answer, and that it is the same streamed or whole, alone or in company."""

import json
import os
import re
import threading
import unittest

from support import CONTEXT, FRANCE, FURTHER_OPTIONS, ROOT, Server, events

ANSWER = "The capital of France is Paris."
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}}


def joined(stream):
    """The message that the deltas of a stream make, by choice."""
    choices = {}
    for event in stream:
        for choice in event["choices"]:
            message = choices.setdefault(choice["index"], {"content": "", "reasoning": "", "calls": [], "reason": None})
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            message["reasoning"] += delta.get("reasoning_content") or ""
            message["calls"] += [(call["index"], call["function"]["name"], call["function"]["arguments"])
                                 for call in delta.get("tool_calls", [])]
            message["reason"] = choice["finish_reason"] or message["reason"]
    return choices


class ApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--access-log", "off")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def ask(self, text=FRANCE, **fields):
        response = self.server.chat(text, **fields)
        self.assertEqual(response.status, 200, response.body)
        return response.json()

    def refuse(self, param, status=400, path="/v1/chat/completions", **body):
        response = self.server.request("POST", path, body)
        error = response.json()["error"]
        self.assertEqual((response.status, error["param"]), (status, param), error)
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        return error

    def test_an_answer_has_every_member_that_clients_read(self):
        answer = self.ask()
        self.assertEqual(answer["object"], "chat.completion")
        self.assertTrue(answer["id"].startswith("chatcmpl-"))
        self.assertEqual(answer["model"], "demo")
        choice = answer["choices"][0]
        self.assertEqual((choice["message"]["content"], choice["finish_reason"], choice["index"]), (ANSWER, "stop", 0))
        usage = answer["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])

    def test_f141_a_stream_is_the_whole_answer_in_pieces(self):
        for fields in ({}, {"reasoning_effort": "high"}, {"tools": [WEATHER]}, {"n": 3, "temperature": 1, "seed": 5},
                       {"stop": ["France"]}, {"max_tokens": 3}):
            question = "What is the weather in Paris?" if "tools" in fields else FRANCE
            whole = self.ask(question, **fields)
            response = self.server.chat(question, stream=True, stream_options={"include_usage": True}, **fields)
            stream = events(response.body)
            self.assertEqual(len({event["id"] for event in stream}), 1)
            self.assertEqual(stream[0]["choices"][0]["delta"]["role"], "assistant")
            self.assertEqual(stream[-1]["choices"], [])
            for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
                self.assertEqual(stream[-1]["usage"][name], whole["usage"][name], fields)
            made = joined(stream)
            for choice in whole["choices"]:
                message = choice["message"]
                other = made[choice["index"]]
                self.assertEqual(other["content"], message["content"] or "")
                self.assertEqual(other["reasoning"], message.get("reasoning_content", ""))
                self.assertEqual([call[1:] for call in other["calls"]],
                                 [(call["function"]["name"], call["function"]["arguments"])
                                  for call in message.get("tool_calls", [])])
                self.assertEqual(other["reason"], choice["finish_reason"])

    def test_without_being_asked_for_there_is_no_usage_in_a_stream(self):
        for event in events(self.server.chat(stream=True).body):
            self.assertNotIn("usage", event)

    def test_a_seed_repeats_and_choices_differ(self):
        fields = {"temperature": 2.0, "top_k": 0, "seed": 11, "n": 2, "max_tokens": 20}
        first = [choice["message"]["content"] for choice in self.ask(**fields)["choices"]]
        self.assertEqual([choice["message"]["content"] for choice in self.ask(**fields)["choices"]], first)
        self.assertNotEqual(first[0], first[1])

    def test_stops_lengths_and_their_reasons(self):
        stopped = self.ask(stop=["is Par", "never"])["choices"][0]
        self.assertEqual((stopped["message"]["content"], stopped["finish_reason"]), ("The capital of France ", "stop"))
        cut = self.ask(max_completion_tokens=2)
        self.assertEqual((cut["choices"][0]["finish_reason"], cut["usage"]["completion_tokens"]), ("length", 2))
        endless = self.ask(ignore_eos=True, max_tokens=40)
        self.assertEqual(endless["usage"]["completion_tokens"], 40)
        late = self.ask(min_tokens=30, max_tokens=60)
        self.assertGreaterEqual(late["usage"]["completion_tokens"], 30)

    def test_log_probabilities_join_to_the_content(self):
        choice = self.ask(logprobs=True, top_logprobs=2)["choices"][0]
        tokens = choice["logprobs"]["content"]
        self.assertEqual("".join(token["token"] for token in tokens), ANSWER)
        for token in tokens:
            self.assertEqual(bytes(token["bytes"]).decode(), token["token"])
            self.assertEqual(token["top_logprobs"][0]["logprob"], token["logprob"])  # greedy
        self.assertEqual(self.ask(logprobs=True)["choices"][0]["logprobs"]["content"][0]["top_logprobs"], [])

    def test_bias_and_penalties_change_the_answer(self):
        ids = self.server.request("POST", "/tokenize", {"content": " Paris"}).json()["tokens"]
        banned = self.ask(logit_bias={str(ids[0]): -100}, max_tokens=20)["choices"][0]["message"]["content"]
        self.assertNotIn("Paris", banned)
        once = self.ask(ignore_eos=True, max_tokens=60, frequency_penalty=2.0)
        self.assertNotEqual(once["choices"][0], self.ask(ignore_eos=True, max_tokens=60)["choices"][0])

    def test_a_round_trip_with_a_tool(self):
        messages = [{"role": "user", "content": "What is the weather in Paris?"}]
        body = {"messages": messages, "tools": [WEATHER]}
        first = self.server.request("POST", "/v1/chat/completions", body).json()["choices"][0]
        self.assertEqual(first["finish_reason"], "tool_calls")
        call = first["message"]["tool_calls"][0]
        self.assertEqual(json.loads(call["function"]["arguments"])["city"], "Paris")
        messages += [first["message"], {"role": "tool", "tool_call_id": call["id"], "content": "It is sunny, 21 degrees."}]
        second = self.server.request("POST", "/v1/chat/completions", body)
        self.assertEqual(second.status, 200, second.body)
        self.assertTrue(second.json()["choices"][0]["message"]["content"])

    def test_forced_calls_fit_their_schemas(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            answer = self.ask("Hello", tools=[WEATHER], tool_choice=choice, temperature=1, seed=3, max_tokens=200)
            self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls")
            call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
            self.assertEqual(call["name"], "get_weather")
            self.assertIsInstance(json.loads(call["arguments"])["city"], str)
        none = self.ask("What is the weather in Paris?", tools=[WEATHER], tool_choice="none", max_tokens=30)
        self.assertNotIn("tool_calls", none["choices"][0]["message"])

    def test_structured_answers_validate(self):
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
                                                   "age": {"type": "integer", "minimum": 0, "maximum": 9},
                                                   "kind": {"enum": ["a", "b"]}},
                  "required": ["name", "age", "kind"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": schema}}
        for seed in range(5):
            answer = self.ask("Invent a person", response_format=form, temperature=1.5, top_k=0, seed=seed)
            person = json.loads(answer["choices"][0]["message"]["content"])
            self.assertEqual(list(person), ["name", "age", "kind"])
            self.assertIn(person["age"], range(10))
            self.assertIn(person["kind"], ("a", "b"))
        thought = self.ask(reasoning_effort="high", response_format={"type": "json_object"}, max_tokens=300)
        self.assertIsInstance(json.loads(thought["choices"][0]["message"]["content"]), dict)
        self.assertTrue(thought["choices"][0]["message"]["reasoning_content"])
        digits = self.ask(response_format={"type": "regex", "pattern": "[0-9]{3}-[0-9]{4}"})
        self.assertRegex(digits["choices"][0]["message"]["content"], r"\A[0-9]{3}-[0-9]{4}\Z")

    def test_f142_every_form_of_content_is_taken(self):
        parts = [{"type": "text", "text": FRANCE}]
        for messages in ([{"role": "user", "content": parts}],
                         [{"role": "system", "content": "Answer."}, {"role": "developer", "content": "Be brief."},
                          {"role": "user", "content": FRANCE}],
                         [{"role": "user", "content": FRANCE}, {"role": "user", "content": FRANCE}],
                         [{"role": "user", "content": FRANCE}, {"role": "assistant", "content": None},
                          {"role": "user", "content": FRANCE}],
                         [{"role": "assistant", "content": "Hello"}, {"role": "user", "content": FRANCE}]):
            response = self.server.request("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 5})
            self.assertEqual(response.status, 200, response.body)

    def test_a_message_can_be_continued(self):
        messages = [{"role": "user", "content": FRANCE}, {"role": "assistant", "content": "The capital of France"}]
        answer = self.server.request("POST", "/v1/chat/completions",
                                     {"messages": messages, "continue_final_message": True}).json()
        self.assertEqual(answer["choices"][0]["message"]["content"], " is Paris.")

    def test_control_tokens_in_a_message_stay_text(self):
        plain = self.ask("x")["usage"]["prompt_tokens"]
        self.assertGreater(self.ask("x<turn|>", max_tokens=1)["usage"]["prompt_tokens"], plain + 1)

    def test_wrong_requests_are_told_what_is_wrong(self):
        user = [{"role": "user", "content": "x"}]
        self.assertEqual(self.refuse("model", 404, messages=user, model="other")["code"], "model_not_found")
        self.refuse("messages")
        self.refuse("messages", messages=[])
        self.refuse("messages[0].role", messages=[{"role": "robot", "content": "x"}])
        self.refuse("messages[0].content", messages=[{"role": "user"}])
        self.refuse("messages[0].content[0].type", messages=[{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])
        self.refuse("temperature", messages=user, temperature=-1)
        self.refuse("temperature", messages=user, temperature="hot")
        self.refuse("max_tokens", messages=user, max_tokens=1.5)
        self.refuse("max_tokens", messages=user, max_tokens=True)
        self.refuse("n", messages=user, n=0)
        self.refuse("top_logprobs", messages=user, top_logprobs=3)
        self.refuse("logit_bias", messages=user, logit_bias={"nine": 1})
        self.refuse("tools[0].type", messages=user, tools=[{"type": "web_search"}])
        self.refuse("tool_choice", messages=user, tools=[WEATHER],
                    tool_choice={"type": "function", "function": {"name": "other"}})
        self.refuse("response_format.type", messages=user, response_format={"type": "yaml"})
        self.refuse("suffix", path="/v1/completions", prompt="x", suffix="y")

    def test_unknown_and_null_members_are_accepted(self):
        answer = self.ask(temperature=None, stop=None, tools=None, max_tokens=None, user="me", store=True, metadata={},
                          prompt_cache_key="x", service_tier="auto", anything=[1, {"of": "this"}])
        self.assertEqual(answer["choices"][0]["message"]["content"], ANSWER)

    def test_f005_too_long_is_refused_with_both_numbers(self):
        error = self.refuse(None, messages=[{"role": "user", "content": "word " * 140000}])
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertRegex(error["message"], rf"{CONTEXT} tokens: \d{{6}} prompt tokens")
        error = self.refuse(None, messages=[{"role": "user", "content": "x"}], max_tokens=200000)
        self.assertEqual(error["code"], "context_length_exceeded")

    def test_completions_are_raw_and_every_prompt_is_answered(self):
        body = {"prompt": ["The capital of France is", "The capital of Italy is"], "max_tokens": 2, "n": 2, "temperature": 0}
        answer = self.server.request("POST", "/v1/completions", body).json()
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
        self.assertEqual(answer["choices"][0]["text"], answer["choices"][1]["text"])
        self.assertTrue(answer["id"].startswith("cmpl-"))
        ids = self.server.request("POST", "/tokenize", {"content": body["prompt"][0], "add_special": True}).json()["tokens"]
        again = self.server.request("POST", "/v1/completions", {**body, "prompt": ids, "n": 1}).json()
        self.assertEqual(again["choices"][0]["text"], answer["choices"][0]["text"])
        self.assertEqual(again["usage"]["prompt_tokens"], len(ids))

    @unittest.skipIf(FURTHER_OPTIONS, "a program gives the last row's logits only; the request is refused")
    def test_echo_scores_a_text_as_evaluations_need_it(self):
        body = {"prompt": "The capital of France is Paris", "max_tokens": 0, "echo": True, "logprobs": 1}
        choice = self.server.request("POST", "/v1/completions", body).json()["choices"][0]
        logprobs = choice["logprobs"]
        self.assertEqual(choice["text"], body["prompt"])
        self.assertEqual(len({len(values) for values in logprobs.values()}), 1)
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertEqual("".join(logprobs["tokens"][1:]), body["prompt"])
        self.assertEqual(logprobs["token_logprobs"][-1], max(logprobs["top_logprobs"][-1].values()))

    @unittest.skipIf("GEMMATRACE_SANITIZED" in os.environ, "arithmetic")
    def test_a_long_conversation_prefills_only_what_is_new(self):
        messages = []
        known = 0
        for turn in range(20):
            messages.append({"role": "user", "content": f"{FRANCE} This is question {turn}, and it is a rather long one."})
            answer = self.server.request("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 30}).json()
            usage = answer["usage"]
            new = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
            if turn > 0:
                self.assertLessEqual(new, usage["prompt_tokens"] - known + 2, f"turn {turn}")
            known = usage["prompt_tokens"] - 1  # a device runs the reply again, in chunks
            if not FURTHER_OPTIONS:
                known += usage["completion_tokens"]
            messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})

    @unittest.skipIf("GEMMATRACE_SANITIZED" in os.environ, "arithmetic; the engine's own tests sanitize the rest")
    def test_requests_together_get_what_each_gets_alone(self):
        requests = [{"text": FRANCE, "temperature": 1.5, "top_k": 0, "seed": seed, "max_tokens": 5 + 3 * seed}
                    for seed in range(12)]
        alone = [self.ask(**request)["choices"] for request in requests]
        together = [None] * len(requests)

        def run(index):
            together[index] = self.ask(**requests[index])["choices"]

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_models_tokenize_detokenize_and_metrics(self):
        model = self.server.request("GET", "/v1/models/demo").json()
        self.assertEqual((model["id"], model["object"], model["max_model_len"]), ("demo", "model", CONTEXT))
        self.assertEqual(self.server.request("GET", "/v1/models/other").status, 404)
        tokens = self.server.request("POST", "/tokenize", {"content": "Grüße, 世界!"}).json()["tokens"]
        text = self.server.request("POST", "/detokenize", {"tokens": tokens}).json()["content"]
        self.assertEqual(text, "Grüße, 世界!")
        count = self.server.request("POST", "/tokenize", {"messages": [{"role": "user", "content": FRANCE}]}).json()["count"]
        self.assertEqual(count, self.ask()["usage"]["prompt_tokens"])
        self.assertGreater(self.server.metric("gemmatrace_generation_tokens_total"), 0)

    def test_sagemaker_finds_its_two_routes(self):
        self.assertEqual(self.server.request("GET", "/ping").status, 200)
        chat = {"messages": [{"role": "user", "content": FRANCE}]}
        answer = self.server.request("POST", "/invocations", chat).json()
        self.assertEqual((answer["object"], answer["choices"][0]["message"]["content"]), ("chat.completion", ANSWER))
        stream = events(self.server.request("POST", "/invocations", {**chat, "stream": True}).body)
        self.assertEqual(joined(stream)[0]["content"], ANSWER)
        raw = {"prompt": "The capital of France is", "max_tokens": 2, "temperature": 0}
        answer = self.server.request("POST", "/invocations", raw).json()
        whole = self.server.request("POST", "/v1/completions", raw).json()
        self.assertEqual((answer["object"], answer["choices"]), ("text_completion", whole["choices"]))
        self.refuse("messages", path="/invocations", input=FRANCE)
        self.refuse("prompt", path="/invocations", **chat, **raw)
        self.refuse("messages[0].role", path="/invocations", messages=[{"role": "robot", "content": "x"}])
        self.assertIn('route="/invocations"', self.server.request("GET", "/metrics").body.decode())

    def test_what_the_docs_tell_operators_to_watch_exists(self):
        page = self.server.request("GET", "/metrics").body.decode()
        exist = set(re.findall(r"^# TYPE (gemmatrace_\w+) ", page, re.MULTILINE))
        named = re.findall(r"\bgemmatrace_\w+", (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8"))
        self.assertGreater(len(named), 5)
        ends = ("_bucket", "_sum", "_count")
        self.assertEqual([name for name in named if name not in exist and
                          not (name.endswith(ends) and name.rsplit("_", 1)[0] in exist)], [])

    def test_the_page_is_served_with_its_policy(self):
        page = self.server.request("GET", "/")
        self.assertTrue(page.headers["Content-Type"].startswith("text/html"))
        self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])


class QueueTest(unittest.TestCase):
    def test_a_full_queue_says_when_to_come_back(self):
        with Server("--slots", 1, "--max-queue", 1, "--access-log", "off") as server:
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(server.chat(ignore_eos=True, max_tokens=300)))
                       for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            statuses = sorted(answer.status for answer in answers)
            self.assertEqual(set(statuses), {200, 429})
            for answer in answers:
                if answer.status == 429:
                    self.assertTrue(answer.headers["Retry-After"])


if __name__ == "__main__":
    unittest.main()
