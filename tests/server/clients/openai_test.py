"""The official openai SDK against `gemmatrace serve`: chat, streams, tools, schemas, logprobs, completions, errors, aborts.

Needs the package openai (any recent version); without it everything is skipped.
"""

import json
import sys
import typing
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support import FRANCE, TIMEOUT_S, Server

try:
    import openai
    import pydantic
except ImportError:
    openai = None

KEY = "test-key"
PARIS = "The capital of France is Paris."
USER = [{"role": "user", "content": FRANCE}]
OSLO = {"role": "user", "content": "What is the weather in Oslo?"}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Gets the current weather of a city.", "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                   "additionalProperties": False}}}


@unittest.skipUnless(openai, "needs the package openai")
class OpenAiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--context", "4096", "--api-key", KEY, "--access-log", "off")
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key=KEY, max_retries=0, timeout=TIMEOUT_S)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def create(self, **members):
        return self.client.chat.completions.create(**{"model": "demo", "messages": USER, **members})

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["demo"])
        self.assertEqual(self.client.models.retrieve("demo").max_model_len, 4096)

    def test_a_chat_and_its_stream(self):
        whole = self.create()
        self.assertEqual(whole.choices[0].message.content, PARIS)
        self.assertTrue(whole._request_id)
        with self.client.chat.completions.stream(model="demo", messages=USER,
                                                 stream_options={"include_usage": True}) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        self.assertEqual(final.choices[0].message.content, PARIS)
        self.assertEqual(final.usage.total_tokens, whole.usage.total_tokens)

    def test_thinking_comes_apart(self):
        message = self.create(reasoning_effort="high").choices[0].message
        self.assertTrue(message.reasoning_content)
        self.assertEqual(message.content, PARIS)

    def test_a_tool_round_trip_streamed(self):
        with self.client.chat.completions.stream(model="demo", messages=[OSLO], tools=[WEATHER]) as stream:
            for event in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        call = message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Oslo"}))
        said = {"id": call.id, "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments}}
        history = [OSLO, {"role": "assistant", "content": None, "tool_calls": [said]},
                   {"role": "tool", "tool_call_id": call.id, "content": "cloudy, 4 degrees"}]
        answer = self.create(messages=history, tools=[WEATHER])
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertTrue(answer.choices[0].message.content)

    def test_several_calls_have_indices_and_ids_of_their_own(self):
        # Longer than one call, so that the model has to go on with another.
        request = {"messages": [OSLO], "tools": [WEATHER], "tool_choice": "required", "max_tokens": 200,
                   "extra_body": {"min_tokens": 24}}
        seen = {}
        for chunk in self.create(**request, stream=True):
            for call in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
                self.assertNotIn(call.index, seen)
                seen[call.index] = call
        self.assertGreater(len(seen), 1)
        self.assertEqual(sorted(seen), list(range(len(seen))))
        self.assertEqual(len({call.id for call in seen.values()}), len(seen))
        whole = self.create(**request).choices[0]
        self.assertEqual(whole.finish_reason, "tool_calls")
        self.assertEqual([call.function.arguments for call in whole.message.tool_calls],
                         [seen[index].function.arguments for index in range(len(seen))])
        one = self.create(**request, parallel_tool_calls=False).choices[0].message.tool_calls
        self.assertEqual(len(one), 1)
        results = [{"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}
                   for call in whole.message.tool_calls]
        answer = self.create(messages=[OSLO, whole.message, *results], tools=[WEATHER]).choices[0]
        self.assertTrue(answer.message.content)

    def test_parsed_answers(self):
        class Person(pydantic.BaseModel):
            name: str = pydantic.Field(max_length=20)
            age: int = pydantic.Field(ge=0, le=120)
            tags: list[typing.Literal["kind", "tall"]] = pydantic.Field(max_length=3)

        parsed = self.client.chat.completions.parse(model="demo", messages=[{"role": "user", "content": "Invent a person"}],
                                                    response_format=Person, temperature=1, seed=4, max_tokens=1000)
        self.assertIsInstance(parsed.choices[0].message.parsed, Person)
        invent = [{"role": "user", "content": "Invent a person"}]
        with self.client.chat.completions.stream(model="demo", messages=invent, response_format=Person, temperature=1,
                                                 seed=4, max_tokens=1000) as stream:
            self.assertEqual(stream.get_final_completion().choices[0].message.parsed, parsed.choices[0].message.parsed)

    def test_choices_of_a_stream_are_those_of_the_whole_answer(self):
        request = {"n": 3, "temperature": 1, "seed": 7, "max_tokens": 20}
        texts = ["", "", ""]
        for chunk in self.create(**request, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        self.assertEqual(texts, [choice.message.content for choice in self.create(**request).choices])

    def test_logprobs_n_and_stop(self):
        joined = self.create(logprobs=True).choices[0].logprobs.content
        self.assertEqual("".join(entry.token for entry in joined), PARIS)
        self.assertEqual(b"".join(bytes(entry.bytes) for entry in joined).decode(), PARIS)
        answer = self.create(logprobs=True, top_logprobs=3, n=2, stop=" Paris")
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        for choice in answer.choices:
            self.assertEqual(choice.message.content, "The capital of France is")
            self.assertEqual(len(choice.logprobs.content[0].top_logprobs), 3)

    def test_legacy_completions(self):
        answer = self.client.completions.create(model="demo", prompt="The capital of France is", max_tokens=3, logprobs=2,
                                                echo=True)
        self.assertTrue(answer.choices[0].text.startswith("The capital of France is"))
        self.assertEqual(len(answer.choices[0].logprobs.tokens), len(answer.choices[0].logprobs.token_logprobs))
        pieces = [chunk.choices[0].text for chunk in self.client.completions.create(
            model="demo", prompt="The capital of France is", max_tokens=3, stream=True)]
        self.assertEqual("".join(pieces), answer.choices[0].text.removeprefix("The capital of France is"))

    def test_errors_have_the_classes_and_members_that_programs_catch(self):
        with self.assertRaises(openai.BadRequestError) as wrong:
            self.create(temperature="hot")
        self.assertEqual((wrong.exception.param, wrong.exception.type), ("temperature", "invalid_request_error"))
        with self.assertRaises(openai.BadRequestError) as long:
            self.create(messages=[{"role": "user", "content": "word " * 9000}])
        self.assertEqual(long.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError) as other:
            self.create(model="gpt-4")
        self.assertEqual(other.exception.code, "model_not_found")
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.server.url + "/v1", api_key="wrong", max_retries=0).models.list()

    def test_a_full_queue_is_a_rate_limit_that_the_sdk_waits_out(self):
        with Server("--context", "4096", "--slots", "1", "--max-queue", "0", "--access-log", "off") as server, \
                openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S) as client:
            long = client.chat.completions.create(model="demo", messages=USER, stream=True, max_tokens=3000,
                                                  extra_body={"ignore_eos": True})
            with self.assertRaises(openai.RateLimitError) as refused:
                client.chat.completions.create(model="demo", messages=USER)
            self.assertEqual(refused.exception.type, "rate_limit_error")
            self.assertTrue(refused.exception.response.headers["retry-after"].isdecimal())
            long.close()
            patient = client.with_options(max_retries=5)
            answer = patient.chat.completions.create(model="demo", messages=USER)
            self.assertEqual(answer.choices[0].message.content, PARIS)

    def test_an_abort_in_the_middle_frees_the_slot(self):
        stream = self.create(messages=[{"role": "user", "content": "Count"}], max_tokens=3000, stream=True,
                             extra_body={"ignore_eos": True})
        for _ in range(3):
            next(stream)
        stream.close()
        self.server.wait_for(lambda: self.server.metric("gemmatrace_num_requests_running") == 0)


if __name__ == "__main__":
    unittest.main()
