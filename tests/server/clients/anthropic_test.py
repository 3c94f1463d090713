"""The official anthropic SDK against `gemmatrace serve`: messages, events, tools, counts and errors as it reads them.

Needs the package anthropic (any recent version); without it everything is skipped.
"""

import json
import re
import sys
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support import TIMEOUT_S, Server

try:
    import anthropic
except ImportError:
    anthropic = None

KEY = "test-key"
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
PARIS = "The capital of France is Paris."
WEATHER = {
    "name": "get_weather",
    "description": "Gets the current weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
}
OSLO = {"role": "user", "content": "What is the weather in Oslo?"}
PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


@unittest.skipUnless(anthropic, "needs the package anthropic")
class AnthropicTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--context", "4096", "--api-key", KEY)
        cls.client = anthropic.Anthropic(base_url=cls.server.url, api_key=KEY, max_retries=0, timeout=TIMEOUT_S)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def create(self, **members):
        members = {"model": "demo", "max_tokens": 100, "messages": FRANCE, **members}
        return self.client.messages.create(**members)

    def final(self, **members):
        """The message that the SDK's stream helper puts together."""
        members = {"model": "demo", "max_tokens": 100, "messages": FRANCE, **members}
        with self.client.messages.stream(**members) as stream:
            return stream.get_final_message()

    def refused(self, error_class, kind, *said, **members):
        """Streamed or not, the request ends with this class of the SDK, in the dialect's own shape."""
        for stream in (False, True):
            with self.assertRaises(error_class) as caught:
                self.create(stream=stream, **members)
            body = caught.exception.body
            self.assertEqual(body["type"], "error")
            self.assertEqual(body["error"]["type"], kind)
            for words in said:
                self.assertIn(words, body["error"]["message"])
            self.assertEqual(body["request_id"], caught.exception.request_id)

    def test_a_message_comes_whole(self):
        message = self.create()
        self.assertEqual([block.to_dict() for block in message.content], [{"type": "text", "text": PARIS}])
        self.assertEqual((message.type, message.role, message.model), ("message", "assistant", "demo"))
        self.assertEqual((message.stop_reason, message.stop_sequence), ("end_turn", None))
        self.assertTrue(message.id.startswith("msg_"))
        self.assertTrue(message._request_id)
        self.assertGreater(message.usage.output_tokens, 0)

    def test_a_stream_is_the_same_message(self):
        requests = [
            {},
            {"max_tokens": 3},
            {"stop_sequences": ["France"]},
            {"messages": [OSLO], "tools": [WEATHER]},
            {"messages": [{"role": "user", "content": "What is the capital of Ghana?"}],
             "thinking": {"type": "adaptive"}},
        ]
        for members in requests:
            with self.subTest(members):
                whole, streamed = self.create(**members).to_dict(), self.final(**members).to_dict()
                for message in (whole, streamed):
                    message.pop("id")
                    usage = message.pop("usage")
                    message["prompt"] = usage["input_tokens"] + usage["cache_read_input_tokens"]
                    message["output"] = usage["output_tokens"]
                    message.pop("stop_details", None)  # the stream helper adds it
                    for block in message["content"]:
                        block.pop("id", None)
                self.assertEqual(streamed, whole)

    def test_text_arrives_in_pieces_and_events_in_order(self):
        names, texts = [], []
        with self.client.messages.stream(model="demo", max_tokens=100, messages=FRANCE) as stream:
            for event in stream:
                names.append(event.type)
                if event.type == "text":
                    texts.append(event.text)
        self.assertGreater(len(texts), 1)
        self.assertEqual("".join(texts), PARIS)
        self.assertEqual(names[0], "message_start")
        self.assertEqual(names[-1], "message_stop")
        self.assertEqual([name for name in names if name.startswith("content_block_st")],
                         ["content_block_start", "content_block_stop"])

    def test_system_texts_and_blocks_reach_the_model(self):
        system = [{"type": "text", "text": "Answer with one word.", "cache_control": {"type": "ephemeral"}}]
        user = [{"type": "text", "text": "What is the capital of Peru?", "cache_control": {"type": "ephemeral"}}]
        messages = [{"role": "user", "content": user}]
        self.assertEqual(self.create(system=system, messages=messages).content[0].text.rstrip("."), "Lima")
        self.assertEqual(self.create(system=system[0]["text"], messages=messages).content[0].text.rstrip("."), "Lima")

    def test_every_end_has_its_reason(self):
        cut = self.create(max_tokens=3)
        self.assertEqual((cut.stop_reason, cut.usage.output_tokens), ("max_tokens", 3))
        self.assertTrue(PARIS.startswith(cut.content[0].text))
        stopped = self.create(stop_sequences=["nothing", " is"])
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", " is"))
        self.assertEqual(stopped.content[0].text, "The capital of France")

    def test_a_thought_comes_first_and_is_taken_back(self):
        question = {"role": "user", "content": "What is the capital of Ghana?"}
        for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}):
            message = self.create(messages=[question], thinking=thinking,
                                  extra_body={"output_config": {"effort": "high"}})
            self.assertEqual([block.type for block in message.content], ["thinking", "text"])
            self.assertIn("Accra", message.content[0].thinking)
            self.assertTrue(message.content[0].signature)
            self.assertEqual(message.content[1].text, "The capital of Ghana is Accra.")
        hidden = self.final(messages=[question], thinking={"type": "adaptive", "display": "omitted"})
        self.assertEqual(hidden.content[0].thinking, "")
        again = self.create(messages=[question, {"role": "assistant", "content": hidden.content},
                                      {"role": "user", "content": "And of Spain?"}])
        self.assertEqual(again.content[0].text, "The capital of Spain is Madrid.")

    def test_a_tool_is_called_and_its_result_read(self):
        for ask in (self.create, self.final):
            message = ask(messages=[OSLO], tools=[WEATHER])
            self.assertEqual(message.stop_reason, "tool_use")
            call = message.content[-1]
            self.assertEqual((call.type, call.name, call.input), ("tool_use", "get_weather", {"city": "Oslo"}))
            self.assertTrue(call.id.startswith("toolu_"))
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny, 21 degrees"}
            history = [OSLO, {"role": "assistant", "content": message.content}]
            for content in (result["content"], [{"type": "text", "text": result["content"]}]):
                answer = ask(messages=[*history, {"role": "user", "content": [{**result, "content": content}]}],
                             tools=[WEATHER])
                self.assertEqual(answer.content[0].text, "The weather in Oslo: sunny, 21 degrees.")
                self.assertEqual(answer.stop_reason, "end_turn")

    def test_text_beside_a_result_loses_nothing(self):
        call = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "sunny, 21 degrees"}
        text = {"type": "text", "text": "What is the capital of Peru?"}

        def count(*blocks):
            messages = [OSLO, {"role": "assistant", "content": [call]}, {"role": "user", "content": list(blocks)}]
            return self.client.messages.count_tokens(model="demo", messages=messages, tools=[WEATHER]).input_tokens

        # Both orders are the same prompt, which is longer than with one of the two.
        self.assertEqual(count(result, text), count(text, result))
        self.assertGreater(count(result, text), count(result))
        self.assertGreater(count(result, text), count({**result, "content": ""}, text))
        self.assertGreater(count({**result, "is_error": True}), count(result))

    def test_a_prefill_is_continued(self):
        message = self.create(messages=[*FRANCE, {"role": "assistant", "content": "The capital of"}])
        self.assertEqual(message.content[0].text, " France is Paris.")

    def test_hosted_tools_are_left_out_and_refused_when_forced(self):
        search = {"type": "web_search_20250305", "name": "web_search"}
        self.assertEqual(self.create(tools=[search]).content[0].text, PARIS)
        self.refused(anthropic.BadRequestError, "invalid_request_error", "web_search", tools=[search, WEATHER],
                     tool_choice={"type": "tool", "name": "web_search"})

    def test_no_tool_is_called_against_the_choice(self):
        message = self.create(messages=[OSLO], tools=[WEATHER], tool_choice={"type": "none"})
        self.assertEqual({block.type for block in message.content}, {"text"})

    def test_a_forced_call_is_made_and_fits_its_schema(self):
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}):
            for ask in (self.create, self.final):
                message = ask(tools=[WEATHER], tool_choice=choice)
                calls = [block for block in message.content if block.type == "tool_use"]
                self.assertEqual(message.stop_reason, "tool_use")
                self.assertEqual({call.name for call in calls}, {"get_weather"})
                for call in calls:
                    self.assertIsInstance(call.input["city"], str)
                    self.assertLessEqual(set(call.input), {"city", "unit"})
                if "disable_parallel_tool_use" in choice:
                    self.assertEqual(len(calls), 1)

    def test_the_tool_runner_goes_on_without_a_thread_of_the_server(self):
        calls = []

        @anthropic.beta_tool(**WEATHER)
        def get_weather(city):
            calls.append(city)
            return "sunny, 21 degrees"

        runner = self.client.beta.messages.tool_runner(model="demo", max_tokens=100, messages=[OSLO],
                                                       tools=[get_weather])
        self.assertEqual(runner.until_done().content[0].text, "The weather in Oslo: sunny, 21 degrees.")
        self.assertEqual(calls, ["Oslo"])

    def test_a_thread_is_refused_in_words_that_sdks_know(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(extra_body={"thread": {"type": "create"}})
        self.assertEqual(caught.exception.body["error"]["details"], {"error_code": "thread_unsupported_request"})

    def test_a_format_is_held(self):
        schema = {"type": "object", "properties": {"capital": {"type": "string", "maxLength": 20}},
                  "required": ["capital"], "additionalProperties": False}
        output_config = {"format": {"type": "json_schema", "schema": schema}}
        message = self.create(extra_body={"output_config": output_config})
        self.assertEqual(list(json.loads(message.content[0].text)), ["capital"])

    def test_counts_agree_with_usage(self):
        question = {"role": "user", "content": "What is the capital of Ghana?"}
        for members in ({}, {"system": "Answer with one word."}, {"messages": [OSLO], "tools": [WEATHER]},
                        {"messages": [question], "thinking": {"type": "adaptive"}}):
            request = {"model": "demo", "messages": FRANCE, **members}
            count = self.client.messages.count_tokens(**request).input_tokens
            for _ in range(2):  # the second time most of it is read from the cache
                for usage in (self.create(**members).usage, self.final(**members).usage):
                    self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens, count)
                    self.assertEqual(usage.cache_creation_input_tokens, 0)
            self.assertGreater(usage.cache_read_input_tokens, 0)

    def test_a_stream_starts_with_the_counts_it_ends_with(self):
        count = self.client.messages.count_tokens(model="demo", messages=[OSLO], tools=[WEATHER]).input_tokens
        for _ in range(2):
            usages = {}
            for event in self.create(messages=[OSLO], tools=[WEATHER], stream=True):
                if event.type in ("message_start", "message_delta"):
                    usages[event.type] = event.message.usage if event.type == "message_start" else event.usage
            start, end = usages["message_start"], usages["message_delta"]
            self.assertEqual((start.input_tokens, start.cache_read_input_tokens),
                             (end.input_tokens, end.cache_read_input_tokens))
            self.assertEqual(start.input_tokens + start.cache_read_input_tokens, count)
        self.assertGreater(start.cache_read_input_tokens, 0)

    def test_the_model_is_listed_and_found(self):
        self.assertEqual([(model.id, model.type) for model in self.client.models.list()], [("demo", "model")])
        model = self.client.models.retrieve("demo")
        self.assertEqual((model.display_name, model.max_input_tokens), ("demo", 4096))
        self.assertTrue(model.created_at)

    def test_errors_have_the_sdks_classes_and_the_dialects_types(self):
        bad, kind = anthropic.BadRequestError, "invalid_request_error"
        self.refused(anthropic.NotFoundError, "not_found_error", "claude", model="claude")
        self.refused(bad, kind, "messages", messages=[])
        self.refused(bad, kind, "messages[0].role", messages=[{"role": "tool", "content": "a"}])
        self.refused(bad, kind, "max_tokens", max_tokens=0)
        self.refused(bad, kind, "temperature", extra_body={"temperature": 9})
        self.refused(bad, kind, "tool_choice.name", tools=[WEATHER], tool_choice={"type": "tool", "name": "other"})
        self.refused(bad, kind, "messages[0].content[0].type", "image",
                     messages=[{"role": "user", "content": [{"type": "image", "source": PIXEL}]}])
        self.refused(bad, kind, "no tool_use", messages=[
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "a"}]}])
        self.refused(bad, kind, "prompt is too long", "4095", messages=[{"role": "user", "content": "word " * 5000}])
        self.refused(bad, kind, "exceed context limit", "4096", max_tokens=4096)
        stranger = self.client.with_options(api_key="other")
        with self.assertRaises(anthropic.AuthenticationError) as caught:
            stranger.messages.create(model="demo", max_tokens=1, messages=FRANCE)
        self.assertEqual(caught.exception.body["error"]["type"], "authentication_error")
        with self.assertRaises(anthropic.BadRequestError):
            self.client.post("/v1/messages", cast_to=object, content=b"{", options={})

    def test_limits_of_the_server_have_classes_and_types_too(self):
        with Server("--context", "4096", "--slots", "1", "--max-queue", "0", "--max-body-mib", "1") as server, \
                anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0, timeout=TIMEOUT_S) as client:
            request = {"model": "demo", "max_tokens": 3000, "messages": FRANCE}
            with self.assertRaises(anthropic.APIStatusError) as huge:
                client.messages.create(**{**request, "messages": [{"role": "user", "content": "word " * 300000}]})
            long = client.messages.create(**request, stream=True, extra_body={"ignore_eos": True})
            with self.assertRaises(anthropic.RateLimitError) as refused:
                client.messages.create(**request)
            long.close()
            server.wait_for(lambda: server.metric("gemmatrace_num_requests_running") == 0)
            for caught, status, kind in ((huge, 413, "request_too_large"), (refused, 429, "rate_limit_error")):
                self.assertEqual(caught.exception.status_code, status)
                self.assertEqual(caught.exception.body["error"]["type"], kind)
                self.assertEqual(caught.exception.body["request_id"], caught.exception.request_id)

    def test_several_calls_are_blocks_of_their_own(self):
        for ask in (self.create, self.final):
            message = ask(messages=[OSLO], tools=[WEATHER], tool_choice={"type": "any"},
                          extra_body={"min_tokens": 24})
            self.assertGreater(len(message.content), 1)
            self.assertEqual({block.type for block in message.content}, {"tool_use"})
            self.assertEqual(len({block.id for block in message.content}), len(message.content))

    def test_a_request_without_max_tokens_is_refused(self):
        body = {"model": "demo", "messages": FRANCE}
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.client.post("/v1/messages", cast_to=object, body=body)
        self.assertIn("max_tokens", caught.exception.body["error"]["message"])

    def test_a_bearer_key_serves_as_well(self):
        client = anthropic.Anthropic(base_url=self.server.url, auth_token=KEY, api_key=None, max_retries=0)
        with client:
            message = client.messages.create(model="demo", max_tokens=100, messages=FRANCE)
        self.assertEqual(message.content[0].text, PARIS)

    def test_what_agents_send_is_taken(self):
        """The shape of a coding agent's request: beta query, blocks with cache_control, a late system message."""
        body = {
            "model": "demo", "max_tokens": 100, "stream": True, "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"}, "metadata": {"user_id": "u"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "system": [{"type": "text", "text": "You are a helpful assistant.",
                        "cache_control": {"type": "ephemeral"}}],
            "tools": [{**WEATHER, "input_schema": {**WEATHER["input_schema"], "additionalProperties": False,
                                                   "$schema": "http://json-schema.org/draft-07/schema#"}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello",
                                                       "cache_control": {"type": "ephemeral"}}]},
                         {"role": "system", "content": "Today is Monday."}],
        }
        request = urllib.request.Request(
            self.server.url + "/v1/messages?beta=true", data=json.dumps(body).encode(),
            headers={"x-api-key": KEY, "content-type": "application/json", "anthropic-version": "2023-06-01",
                     "anthropic-beta": "interleaved-thinking-2025-05-14"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            self.assertEqual(response.headers["content-type"], "text/event-stream")
            events = re.findall(r"^event: (\w+)\ndata: (.*)$", response.read().decode(), re.MULTILINE)
        self.assertEqual([name for name, _ in events], [json.loads(data)["type"] for _, data in events])
        self.assertEqual((events[0][0], events[-1][0]), ("message_start", "message_stop"))


if __name__ == "__main__":
    unittest.main()
